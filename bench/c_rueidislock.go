package main

import (
	"context"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// rueidislock on one node with one key (KeyMajority 1), its fastest setting. NoLoopTracking
// is no faster here and hung one run in five. It waits for no answer to its release.
var rueidislock1 = contestant{
	name: "rueidislock", nodes: 1, waits: true,
	open: func(nodes []string, _ int) (client, error) {
		l, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption: rueidis.ClientOption{InitAddress: nodes[:1], DisableRetry: true},
			KeyValidity:  lockTTL,
			KeyMajority:  1,
		})
		return rueidisClient{l}, err
	},
}

type rueidisClient struct{ l rueidislock.Locker }

func (c rueidisClient) worker() (worker, error) { return &rueidisWorker{c: c}, nil }
func (c rueidisClient) close()                  { c.l.Close() }

type rueidisWorker struct {
	c      rueidisClient
	cancel context.CancelFunc
}

func (w *rueidisWorker) lock(ctx context.Context, name string) (err error) {
	_, w.cancel, err = w.c.l.WithContext(ctx, name)
	return err
}

func (w *rueidisWorker) unlock(context.Context) error { w.cancel(); return nil }
