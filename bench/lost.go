package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/quorumlock/redlock/fence"
	"github.com/quorumlock/redlock/internal/redisserver"
)

// Lost updates: processes count up a number together. Each reads it under a lock, thinks, and writes it back. A process
// that has read is frozen for longer than its TTL, again and again, so that it writes when it has lost the lock. Every
// update that was confirmed and is not in the number at the end is lost. All contestants work side by side.
var lostUpdates = scenario{
	name: "lost-updates",
	about: "Beside consensus: processes read, modify and write one number under a lock with a TTL of 2 s; one that has " +
		"read is stopped for three TTLs, again and again.",
	contestants: editors,
	goroutines:  []int{3}, // processes
	measure:     (*bench).lose,
	longer:      600,
	rounds:      1,
}

// editors are the locks. Where the store checks tokens, the name says so.
var editors = []contestant{
	edits("SET NX, one master", bareSetNX1),
	edits("redlock, token not checked", redlockFenced5), edits("redlock, token checked", redlockFenced5),
	edits("etcd", etcd3), edits("etcd, revision checked", etcd3),
	edits("ZooKeeper", zooKeeper3), edits("ZooKeeper, zxid checked", zooKeeper3),
}

func edits(name string, c contestant) contestant {
	c.name = name
	return c
}

const (
	updates   = "updates" // that were confirmed
	pauses    = "pauses"
	rejected  = "rejected"  // late writes and reads that the store refused
	overwrote = "overwrote" // late writes that it took: of something that the writer had not read
	lost      = "lost"      // updates that the number lacks at the end
)

// tally is what has become of the updates of a process, or of all. Those that failed may be in the number.
type tally map[string]float64

func newTally() tally { return tally{updates: 0, rejected: 0, overwrote: 0, failed: 0} }

// judge compares with the number in the end. An update whose outcome nobody knows is not lost; where it is in the
// number, it may hide one that is.
func (t tally) judge(number int) { t[lost] = max(0, t[updates]-float64(number)) }

// lose lets all contestants of the scenario work side by side, when it is the first one's turn.
func (b *bench) lose(sc scenario, c contestant, processes int, duration time.Duration) ([]sample, error) {
	if c.name != sc.contestants[0].name {
		return nil, nil
	}
	for _, e := range b.cluster.ensembles {
		if err := e.heal(); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	store, err := redisserver.Launch(ctx, redisserver.Config{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = store.Remove(context.Background()) }()
	samples, prefix := make([]sample, len(sc.contestants)), b.prefix()
	err = together(len(samples), func(i int) error {
		c := sc.contestants[i]
		nodes, err := b.nodesFor(c)
		if err != nil {
			return err
		}
		figures, err := torment(editing{c.name, nodes, store.Addr(), prefix + fmt.Sprint(i), b.editTTL}, processes, duration)
		samples[i] = sample{who: c.name, nodes: c.nodes, figures: figures}
		return err
	})
	return samples, err
}

// torment runs the processes of one contestant, and freezes them in turn.
func torment(told editing, processes int, duration time.Duration) (map[string]float64, error) {
	var all []*child
	var listeners sync.WaitGroup
	defer listeners.Wait()
	defer func() {
		for _, p := range all {
			p.kill()
		}
	}()
	reads, totals := make(chan *child), make(chan tally, processes) // reads unbuffered: who is offered has just read
	for range processes {
		p, err := startChild("editor", told)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
		listeners.Go(func() { listen(p, reads, totals) })
	}
	frozen := 0
	for end := time.Now().Add(duration); frozen == 0 || time.Now().Before(end); frozen++ {
		select {
		case p := <-reads:
			if err := p.Pause(); err != nil {
				return nil, err
			}
			time.Sleep(3 * told.TTL)
			if err := p.Resume(); err != nil {
				return nil, err
			}
			time.Sleep(told.TTL / 2)
		case <-time.After(time.Minute):
			return nil, fmt.Errorf("%s: nobody has the lock", told.Name)
		}
	}
	for _, p := range all {
		_ = p.in.Close()
	}
	sum := newTally()
	for range all {
		select {
		case t := <-totals:
			for name, n := range t {
				sum[name] += n
			}
		case <-time.After(time.Minute):
			var said strings.Builder
			for _, p := range all {
				said.WriteString(p.Log())
			}
			return nil, fmt.Errorf("%s: a process did not come to its end; all have printed:\n%s", told.Name, &said)
		}
	}
	s, err := openStore(told, worker{})
	if err != nil {
		return nil, err
	}
	defer s.close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	number, err := s.read(ctx, 0)
	sum.judge(number)
	sum[pauses] = float64(frozen)
	return sum, err
}

// listen offers a process when it has read, and at its end passes on what it has done. It ends with the process.
func listen(p *child, reads chan<- *child, totals chan<- tally) {
	for p.lines.Scan() {
		if p.lines.Text() != hasRead {
			var t tally
			if json.Unmarshal(p.lines.Bytes(), &t) == nil {
				totals <- t
			}
			continue
		}
		select {
		case reads <- p:
		default:
		}
	}
}

const hasRead = "read"

// editorRole edits until its input ends.
func editorRole(text []byte, parent io.Writer) error {
	var told editing
	if err := json.Unmarshal(text, &told); err != nil {
		return err
	}
	e, err := openEditor(told)
	if err != nil {
		return err
	}
	defer e.close()
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		cancel()
	})
	total := e.edit(ctx, func() { fmt.Fprintln(parent, hasRead) })
	return json.NewEncoder(parent).Encode(total)
}

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
