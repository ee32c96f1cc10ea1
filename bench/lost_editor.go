package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/quorumlock/redlock"
)

// editing is what a process is told.
type editing struct {
	Name  string // of the contestant
	Nodes []string
	Store string // a Redis of its own, where the number is, unless it is in etcd
	Key   string
	TTL   time.Duration
}

// An editor reads and writes the number.
type editor struct {
	lock   func(ctx context.Context) (token int64, err error)
	unlock func(ctx context.Context) error
	read   func(ctx context.Context, token int64) (int, error)
	write  func(ctx context.Context, token int64, n int) (was int, err error) // was: what it has overwritten
	number func(ctx context.Context) (int, error)
	close  func()
}

// errLate says that the store refused: it knows a later holder.
var errLate = errors.New("a later holder was here")

// How long an editor thinks between read and write. A pause begins there: after any check of the lock that it might
// make, since no check is the last thing before the write arrives.
const think = 20 * time.Millisecond

// edit counts up until ctx ends. told is called when the editor has read.
func (e *editor) edit(ctx context.Context, told func()) (t tally) {
	for ctx.Err() == nil {
		token, err := e.lock(ctx)
		if err != nil { // after a pause its session is over
			time.Sleep(think)
			continue
		}
		e.update(token, told, &t)
		limited, cancel := context.WithTimeout(context.Background(), peerTimeout)
		_ = e.unlock(limited) // after a pause it is another's
		cancel()
	}
	return t
}

func (e *editor) update(token int64, told func(), t *tally) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	n, err := e.read(ctx, token)
	if err != nil {
		if errors.Is(err, errLate) {
			t.Rejected++
		}
		return
	}
	told()
	time.Sleep(think)
	was, err := e.write(ctx, token, n+1)
	switch {
	case errors.Is(err, errLate):
		t.Rejected++
	case err != nil:
		t.Unknown++
	default:
		if t.Updates++; was != n {
			t.Overwrote++
		}
	}
}

func openEditor(told editing) (*editor, error) {
	if told.Name == "etcd" || told.Name == etcdChecked {
		return etcdEditor(told)
	}
	e, err := redisEditor(told.Store, told.Key, checked(told.Name))
	if err != nil {
		return nil, err
	}
	closeStore, closeLock := e.close, func() {}
	switch told.Name {
	case "ZooKeeper", zooKeeperChecked:
		closeLock, err = zooKeeperLocks(e, told)
	case redlockUnfenced, redlockChecked:
		closeLock, err = redlockLocks(e, told)
	default:
		closeLock, err = bareLocks(e, told)
	}
	e.close = func() { closeLock(); closeStore() }
	return e, err
}

// Of docs/fencing.md: the mark is raised before the read, and compared at the write.
const (
	readScript = `
if tonumber(redis.call('GET', KEYS[2]) or '0') > tonumber(ARGV[1]) then return false end
redis.call('SET', KEYS[2], ARGV[1])
return redis.call('GET', KEYS[1]) or '0'`
	writeScript = `
if tonumber(redis.call('GET', KEYS[2]) or '0') > tonumber(ARGV[1]) then return false end
redis.call('SET', KEYS[2], ARGV[1])
return redis.call('SET', KEYS[1], ARGV[2], 'GET') or '0'`
)

// redisEditor has the number in Redis, which compares tokens if they are to be checked.
func redisEditor(store, key string, fenced bool) (*editor, error) {
	c, err := redis.Dial("tcp", store)
	if err != nil {
		return nil, err
	}
	late := func(n int, err error) (int, error) {
		if errors.Is(err, redis.ErrNil) {
			return 0, errLate
		}
		return n, err
	}
	zero := func(n int, err error) (int, error) {
		if errors.Is(err, redis.ErrNil) {
			return 0, nil
		}
		return n, err
	}
	e := &editor{
		number: func(context.Context) (int, error) { return zero(redis.Int(c.Do("GET", key))) },
		read:   func(context.Context, int64) (int, error) { return zero(redis.Int(c.Do("GET", key))) },
		write: func(_ context.Context, _ int64, n int) (int, error) {
			return zero(redis.Int(c.Do("SET", key, n, "GET")))
		},
		close: func() { _ = c.Close() },
	}
	if fenced {
		read, write := redis.NewScript(2, readScript), redis.NewScript(2, writeScript)
		e.read = func(_ context.Context, token int64) (int, error) {
			return late(redis.Int(read.Do(c, key, key+":mark", token)))
		}
		e.write = func(_ context.Context, token int64, n int) (int, error) {
			return late(redis.Int(write.Do(c, key, key+":mark", token, n)))
		}
	}
	return e, nil
}

// bareLocks locks on one master, and asks again every few milliseconds.
func bareLocks(e *editor, told editing) (closeLock func(), err error) {
	w, err := bareWorker(told.Nodes[0], told.TTL)
	e.lock = func(ctx context.Context) (int64, error) {
		for {
			err := w.lock(ctx, told.Key)
			if !errors.Is(err, errTaken) || ctx.Err() != nil {
				return 0, err
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	e.unlock = w.unlock
	return w.close, err
}

func redlockLocks(e *editor, told editing) (closeLock func(), err error) {
	l, err := redlock.New(urls("redis://", told.Nodes), redlock.WithTTL(told.TTL), noGuard)
	if err != nil {
		return nil, err
	}
	var held *redlock.Lock
	e.lock = func(ctx context.Context) (_ int64, err error) {
		if held, err = l.Lock(ctx, told.Key); err != nil {
			return 0, err
		}
		return held.Token(), nil
	}
	e.unlock = func(context.Context) error { return held.Unlock() }
	return func() { _ = l.Close() }, nil
}

// zooKeeperLocks has the zxid of its own place in the queue as token. It finds it by a text of its own.
func zooKeeperLocks(e *editor, told editing) (closeLock func(), err error) {
	c, err := connectZooKeeper(told.Nodes, told.TTL)
	if err != nil {
		return nil, err
	}
	var held *zk.Lock
	path := "/" + told.Key
	e.lock = func(context.Context) (int64, error) {
		own := uuid.NewString()
		held = zk.NewLock(c, path, zk.WorldACL(zk.PermAll))
		if err := held.LockWithData([]byte(own)); err != nil || !checked(told.Name) {
			return 0, err
		}
		places, _, err := c.Children(path)
		for _, place := range places {
			data, stat, bad := c.Get(path + "/" + place)
			if bad == nil && string(data) == own {
				return stat.Czxid, nil
			}
		}
		return 0, errors.Join(errors.New("its place is gone"), err, held.Unlock())
	}
	e.unlock = func(context.Context) error { return held.Unlock() }
	return c.Close, nil
}

// etcdEditor has the number in etcd. Where the revision is checked, a write goes in one transaction with the question
// whether the key of the lock is still the one that was created for it.
func etcdEditor(told editing) (*editor, error) {
	c, err := connectEtcd(told.Nodes)
	if err != nil {
		return nil, err
	}
	s := &etcdSession{client: c, ttl: told.TTL}
	var held *concurrency.Mutex
	key := told.Key + ":number"
	number := func(ctx context.Context) (int, error) {
		reply, err := c.Get(ctx, key)
		if err != nil || len(reply.Kvs) == 0 {
			return 0, err
		}
		return strconv.Atoi(string(reply.Kvs[0].Value))
	}
	return &editor{
		lock: func(ctx context.Context) (int64, error) {
			session, err := s.get(ctx)
			if err != nil {
				return 0, err
			}
			held = concurrency.NewMutex(session, told.Key)
			if err := held.Lock(ctx); err != nil {
				s.renew()
				return 0, err
			}
			return 0, nil
		},
		unlock: func(ctx context.Context) error { return held.Unlock(ctx) },
		read:   func(ctx context.Context, _ int64) (int, error) { return number(ctx) },
		write: func(ctx context.Context, _ int64, n int) (was int, err error) {
			txn := c.Txn(ctx)
			if checked(told.Name) {
				txn = txn.If(held.IsOwner())
			}
			reply, err := txn.Then(clientv3.OpPut(key, fmt.Sprint(n), clientv3.WithPrevKV())).Commit()
			if err != nil {
				return 0, err
			}
			if !reply.Succeeded {
				return 0, errLate
			}
			if old := reply.Responses[0].GetResponsePut().PrevKv; old != nil {
				return strconv.Atoi(string(old.Value))
			}
			return 0, nil
		},
		number: number,
		close:  s.close,
	}, nil
}
