package main

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/redisserver"
)

// This library with its defaults, but for the TTL that all contestants share.
var (
	redlockFenced5 = ours("redlock", 5, openRedlock(locks))
	redlockPlain5  = ours("redlock plain", 5, openRedlock(locks, redlock.WithoutFencing()))

	redlockTLS5      = ours("redlock", 5, openTLS())
	redlockPlainTLS5 = ours("redlock plain", 5, openTLS(redlock.WithoutFencing()))

	redlockTwoLists = ours("redlock, two lists", 6, openTwoLists)
	redlockTen5     = ours("redlock"+tenNames, 5, openRedlock(tenAtOnce))
	redlockReaders5 = ours("redlock rw", 5, openRedlock(readMostly))
	redlockOnce5    = ours("redlock once, a run", 5, openRedlock(runs))
	redlockDone5    = ours("redlock once, done before", 5, openRedlock(finds))

	redlockPermit5 = ours("redlock permit", 5, openPermits(0, false))
	redlockLast5   = ours("redlock permit, 7 of 8 taken", 5, openPermits(permits-1, false))
	redlockFind5   = ours("redlock permit, 7 of 8 taken, new each time", 5, openPermits(permits-1, true))
)

func ours(name string, nodes int, open opener) contestant {
	return contestant{name: name, nodes: nodes, open: open}
}

// A way is how a worker comes to a hold. It returns nil if there is nothing to unlock.
type way func(ctx context.Context, name string) (*redlock.Lock, error)

// openRedlock opens a Locker, to which each worker has a way of its own.
func openRedlock(each func(*redlock.Locker) way, opts ...redlock.Option) opener {
	return func(nodes []string, w wish) *client {
		return openLocker(urls("redis://", nodes), w, each, opts)
	}
}

// openTLS is openRedlock for masters that speak TLS only.
func openTLS(opts ...redlock.Option) opener {
	return func(nodes []string, w wish) *client {
		trust := redlock.WithNodeConfig(redlock.NodeConfig{TLS: authority().ClientConfig()})
		return openLocker(urls("rediss://", nodes), w, locks, append(opts, trust))
	}
}

// openTwoLists opens a Locker with two lists of five, which share four.
func openTwoLists(nodes []string, w wish) *client {
	replaced := urls("redis://", slices.Concat(nodes[:4], nodes[5:]))
	return openRedlock(locks, redlock.WithNewNodes(replaced))(nodes[:5], w)
}

// authority signs the masters' certificates.
var authority = sync.OnceValue(func() *redisserver.Authority {
	return made(redisserver.NewAuthority())
})

// noGuard is for masters that have just been started.
var noGuard = redlock.WithNodeConfig(redlock.NodeConfig{NoRestartGuard: true})

func openLocker(urls []string, w wish, each func(*redlock.Locker) way, opts []redlock.Option) *client {
	opts = append([]redlock.Option{noGuard, redlock.WithOwnerLabel(w.owner)}, opts...)
	if w.ttl > 0 {
		opts = append(opts, redlock.WithTTL(w.ttl))
	}
	if w.unrenewed {
		opts = append(opts, redlock.WithoutRenewal())
	}
	l := made(redlock.New(urls, opts...))
	return &client{
		worker: func() worker {
			var held *redlock.Lock
			acquire := each(l)
			return worker{
				lock: func(ctx context.Context, name string) (err error) { held, err = acquire(ctx, name); return err },
				try:  func(ctx context.Context, name string) (err error) { held, err = l.TryLock(ctx, name); return err },
				unlock: func(ctx context.Context) error {
					if held == nil {
						return nil
					}
					return held.Unlock()
				},
				extend:  func(ctx context.Context) error { return held.Extend(ctx) },
				until:   func() time.Time { return held.Deadline() },
				context: func(ctx context.Context) (context.Context, context.CancelFunc) { return held.Context(ctx) },
				held:    func() any { return held },
				token:   func() (int64, error) { return held.Token(), nil },
			}
		},
		close: func() { _ = l.Close() },
	}
}

func urls(scheme string, nodes []string) (list []string) {
	for _, node := range nodes {
		list = append(list, scheme+node)
	}
	return list
}

func locks(l *redlock.Locker) way {
	return func(ctx context.Context, name string) (*redlock.Lock, error) { return l.Lock(ctx, name) }
}

func tries(l *redlock.Locker) way {
	return func(ctx context.Context, name string) (*redlock.Lock, error) { return l.TryLock(ctx, name) }
}

const tenNames = ", 10 names"

// tenAtOnce: each name that is asked for stands for ten. They are made once, so that this is not measured.
func tenAtOnce(l *redlock.Locker) way {
	made := map[string][]string{}
	return func(ctx context.Context, name string) (*redlock.Lock, error) {
		if made[name] == nil {
			made[name] = expand([]string{name}, 10)
		}
		return l.LockAll(ctx, made[name])
	}
}

// expand makes several names of each.
func expand(names []string, each int) (all []string) {
	for _, name := range names {
		for i := range each {
			all = append(all, name+":"+strconv.Itoa(i))
		}
	}
	return all
}

// readMostly locks to read, and to write once in twenty cycles.
func readMostly(l *redlock.Locker) way {
	cycles := 0
	return func(ctx context.Context, name string) (*redlock.Lock, error) {
		if cycles++; cycles%20 == 0 {
			return l.Lock(ctx, name)
		}
		return l.RLock(ctx, name)
	}
}

func once(ctx context.Context, l *redlock.Locker, name string) error {
	return l.Once(ctx, name, func(context.Context, *redlock.Lock) error { return nil })
}

// runs runs a job that nobody has run before and that has nothing to do.
func runs(l *redlock.Locker) way {
	return func(ctx context.Context, name string) (*redlock.Lock, error) { return nil, once(ctx, l, name) }
}

// finds runs a job once, and then finds it done.
func finds(l *redlock.Locker) way {
	job := ""
	return func(ctx context.Context, name string) (*redlock.Lock, error) {
		if job == "" {
			job = name
			return nil, once(ctx, l, job)
		}
		if err := once(ctx, l, job); !errors.Is(err, redlock.ErrAlreadyRun) {
			return nil, errors.Join(errors.New("it was not done"), err)
		}
		return nil, nil
	}
}

// Permits of semaphores with eight, all of them free or all but one taken by another process. Each goroutine has a
// semaphore of its own: that of the first name it is given. Who keeps a Semaphore remembers the slot that it found
// free; who makes a new one each time, as a process that has just begun, has to look for it.
const permits = 8

func openPermits(taken int, anew bool) opener {
	return func(nodes []string, w wish) *client {
		other := made(redlock.New(urls("redis://", nodes), redlock.WithTTL(lockTTL), noGuard)) // the other process
		var mu sync.Mutex
		var holds []*redlock.Lock // of the other process; guarded by mu
		occupy := func(ctx context.Context, name string) error {
			s := other.Semaphore(name, permits)
			for range taken {
				held, err := s.Acquire(ctx)
				if err != nil {
					return err
				}
				mu.Lock()
				holds = append(holds, held)
				mu.Unlock()
			}
			return nil
		}
		c := openRedlock(func(l *redlock.Locker) way {
			var own string
			var s *redlock.Semaphore
			return func(ctx context.Context, name string) (*redlock.Lock, error) {
				if own == "" {
					if err := occupy(ctx, name); err != nil {
						return nil, err
					}
					own = name
				}
				if s == nil || anew {
					s = l.Semaphore(own, permits)
				}
				return s.Acquire(ctx)
			}
		})(nodes, w)
		closeOurs := c.close
		c.close = func() {
			for _, held := range holds {
				_ = held.Unlock()
			}
			_ = other.Close()
			closeOurs()
		}
		return c
	}
}
