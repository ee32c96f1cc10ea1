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
func (b *bench) lose(sc scenario, c contestant, processes int, duration time.Duration) []sample {
	if c.name != sc.contestants[0].name {
		return nil
	}
	for _, e := range b.cluster.ensembles {
		e.heal()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	store := made(redisserver.Launch(ctx, redisserver.Config{}))
	defer func() { _ = store.Remove(context.Background()) }()
	samples, prefix := make([]sample, len(sc.contestants)), b.prefix()
	must(together(len(samples), func(i int) error {
		return attempt(func() {
			c := sc.contestants[i]
			told := editing{c.name, b.nodesFor(c), store.Addr(), prefix + fmt.Sprint(i), b.editTTL}
			samples[i] = sample{who: c.name, nodes: c.nodes, figures: torment(told, processes, duration)}
		})
	}))
	return samples
}

// torment runs the processes of one contestant, and freezes them in turn.
func torment(told editing, processes int, duration time.Duration) map[string]float64 {
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
		p := startChild("editor", told)
		all = append(all, p)
		listeners.Go(func() { listen(p, reads, totals) })
	}
	frozen := 0
	for end := time.Now().Add(duration); frozen == 0 || time.Now().Before(end); frozen++ {
		select {
		case p := <-reads:
			must(p.Pause())
			time.Sleep(3 * told.TTL)
			must(p.Resume())
			time.Sleep(told.TTL / 2)
		case <-time.After(time.Minute):
			must(fmt.Errorf("%s: nobody has the lock", told.Name))
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
			must(fmt.Errorf("%s: a process did not come to its end; all have printed:\n%s", told.Name, &said))
		}
	}
	s := openStore(told, worker{})
	defer s.close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	sum.judge(made(s.read(ctx, 0)))
	sum[pauses] = float64(frozen)
	return sum
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
func editorRole(text []byte, parent io.Writer) {
	var told editing
	must(json.Unmarshal(text, &told))
	e := openEditor(told)
	defer e.close()
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		cancel()
	})
	total := e.edit(ctx, func() { fmt.Fprintln(parent, hasRead) })
	must(json.NewEncoder(parent).Encode(total))
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

func openEditor(told editing) *editor {
	c := editors[slices.IndexFunc(editors, func(c contestant) bool { return c.name == told.Name })]
	locks := c.open(told.Nodes, wish{ttl: told.TTL, goroutines: 1})
	w := locks.worker()
	s := openStore(told, w)
	return &editor{worker: w, store: s, key: told.Key, checked: checked(told.Name), close: func() {
		s.close()
		locks.close()
	}}
}

// checked says whether the store of a contestant compares tokens.
func checked(name string) bool {
	return strings.HasSuffix(name, " checked") && !strings.HasSuffix(name, " not checked")
}

// openStore opens what has the number: etcd, where that has the lock, which w has taken.
func openStore(told editing, w worker) *store {
	if strings.HasPrefix(told.Name, "etcd") {
		return etcdStore(told, w)
	}
	return redisStore(told.Store, told.Key)
}

// redisStore has the number in Redis, which compares tokens, but for those that are 0.
func redisStore(addr, key string) *store {
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
	}
}

// etcdStore has the number in etcd. Where the revision is checked, a write goes in one transaction with the question
// whether the key of the lock is still the one that was created for it.
func etcdStore(told editing, w worker) *store {
	c := connectEtcd(told.Nodes)
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
	}
}
