package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/quorumlock/redlock/fence"
)

// editing is what a process is told.
type editing struct {
	Name  string // of the contestant
	Nodes []string
	Store string // a Redis of its own, where the number is, unless it is in etcd
	Key   string
	TTL   time.Duration
}

// An editor has a lock, and a store with the number.
type editor struct {
	worker
	*store

	key     string // the lock's name
	checked bool
	close   func()
}

type store struct {
	read  func(ctx context.Context, token int64) (int, error)
	write func(ctx context.Context, token int64, n int) (was int, err error) // was: what it has overwritten
	close func()
}

// How long an editor thinks between read and write. A pause begins there: after any check of the lock that it might
// make, since no check is the last thing before the write arrives.
const think = 20 * time.Millisecond

// edit counts up until ctx ends. told is called when the editor has read.
func (e *editor) edit(ctx context.Context, told func()) tally {
	t := newTally()
	for ctx.Err() == nil {
		if e.lock(ctx, e.key) != nil { // after a pause its session is over
			time.Sleep(think)
			continue
		}
		var token int64
		var err error
		if e.checked && e.token != nil {
			token, err = e.token()
		}
		if err == nil {
			e.update(token, told, t)
		}
		limited, cancel := context.WithTimeout(context.Background(), peerTimeout)
		_ = e.unlock(limited) // after a pause it is another's
		cancel()
	}
	return t
}

func (e *editor) update(token int64, told func(), t tally) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	n, err := e.read(ctx, token)
	if err != nil {
		if errors.Is(err, fence.ErrOvertaken) {
			t[rejected]++
		}
		return
	}
	told()
	time.Sleep(think)
	was, err := e.write(ctx, token, n+1)
	switch {
	case errors.Is(err, fence.ErrOvertaken):
		t[rejected]++
	case err != nil:
		t[failed]++
	default:
		if t[updates]++; was != n {
			t[overwrote]++
		}
	}
}

func openEditor(told editing) (*editor, error) {
	c := editors[slices.IndexFunc(editors, func(c contestant) bool { return c.name == told.Name })]
	locks, err := c.open(told.Nodes, wish{ttl: told.TTL, goroutines: 1})
	if err != nil {
		return nil, err
	}
	w, err := locks.worker()
	if err != nil {
		return nil, err
	}
	s, err := openStore(told, w)
	return &editor{worker: w, store: s, key: told.Key, checked: checked(told.Name), close: func() {
		s.close()
		locks.close()
	}}, err
}

// checked says whether the store of a contestant compares tokens.
func checked(name string) bool {
	return strings.HasSuffix(name, " checked") && !strings.HasSuffix(name, " not checked")
}

// openStore opens what has the number: etcd, where that has the lock, which w has taken.
func openStore(told editing, w worker) (*store, error) {
	if strings.HasPrefix(told.Name, "etcd") {
		return etcdStore(told, w)
	}
	return redisStore(told.Store, told.Key)
}

// redisStore has the number in Redis, which compares tokens, but for those that are 0.
func redisStore(addr, key string) (*store, error) {
	pool := &redis.Pool{MaxIdle: 1, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", addr) }}
	run := func(ctx context.Context, token int64, script string, args ...any) (int, error) {
		if token == 0 {
			c := pool.Get()
			defer c.Close()
			return redis.Int(redis.NewScript(1, script).Do(c, append([]any{key}, args...)...))
		}
		h, err := fence.Parse(key, fmt.Sprint(token))
		if err != nil {
			return 0, err
		}
		return redis.Int(fence.RedisDo(ctx, pool, h, script, []string{key}, args...))
	}
	return &store{
		read: func(ctx context.Context, token int64) (int, error) {
			return run(ctx, token, "return redis.call('GET', KEYS[1]) or '0'")
		},
		write: func(ctx context.Context, token int64, n int) (int, error) {
			return run(ctx, token, "return redis.call('SET', KEYS[1], ARGV[1], 'GET') or '0'", n)
		},
		close: func() { _ = pool.Close() },
	}, nil
}

// etcdStore has the number in etcd. Where the revision is checked, a write goes in one transaction with the question
// whether the key of the lock is still the one that was created for it.
func etcdStore(told editing, w worker) (*store, error) {
	c, err := connectEtcd(told.Nodes)
	if err != nil {
		return nil, err
	}
	key := told.Key + ":number"
	return &store{
		read: func(ctx context.Context, _ int64) (int, error) {
			reply, err := c.Get(ctx, key)
			if err != nil || len(reply.Kvs) == 0 {
				return 0, err
			}
			return strconv.Atoi(string(reply.Kvs[0].Value))
		},
		write: func(ctx context.Context, _ int64, n int) (was int, err error) {
			txn := c.Txn(ctx)
			if checked(told.Name) {
				txn = txn.If(w.held().(*concurrency.Mutex).IsOwner())
			}
			reply, err := txn.Then(clientv3.OpPut(key, fmt.Sprint(n), clientv3.WithPrevKV())).Commit()
			if err != nil {
				return 0, err
			}
			if !reply.Succeeded {
				return 0, fence.ErrOvertaken
			}
			if old := reply.Responses[0].GetResponsePut().PrevKv; old != nil {
				return strconv.Atoi(string(old.Value))
			}
			return 0, nil
		},
		close: func() { _ = c.Close() },
	}, nil
}
