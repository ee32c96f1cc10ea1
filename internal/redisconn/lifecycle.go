package redisconn

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quorumlock/redlock/internal/chance"
)

// run keeps the connection up until it is closed.
func (c *Conn) run() {
	defer close(c.stopped)
	for failures := 0; ; failures++ {
		l, err := c.connect(c.ctx)
		if err == nil {
			failures = 0
			c.connected(l)
			err = c.serve(l)
		}
		c.disconnected(err)
		if sleep(c.ctx, reconnectDelay(failures)) != nil {
			return
		}
	}
}

// reconnectDelay spreads the attempts of many clients over time.
func reconnectDelay(failures int) time.Duration {
	limit := min(time.Second, 10*time.Millisecond<<min(failures, 10))
	return limit/2 + chance.Duration(limit/2)
}

// serve runs the connection's writer and reader until it breaks.
func (c *Conn) serve(l *link) error {
	g, ctx := errgroup.WithContext(c.ctx)
	stop := context.AfterFunc(ctx, func() { // the end of one is the end of all
		if c.ctx.Err() == nil {
			l.drop()
		}
		l.close()
	})
	defer stop()
	g.Go(func() error { return c.write(ctx, l) })
	g.Go(func() error { return c.read(l) })
	if c.config.Attend != nil {
		g.Go(func() error { return c.config.Attend(ctx) })
	}
	err := g.Wait()
	l.close()
	return err
}

func (c *Conn) connected(l *link) {
	c.mu.Lock()
	c.link, c.down, c.silent = l, nil, time.Time{}
	kept, over := splitOver(c.queue) // undos
	c.queue = kept
	c.mu.Unlock()
	letGo(over)
	c.wakeWriter()
	c.changed()
}

// disconnected fails everything that was sent and not answered: it may have been carried out or not. Nothing is sent
// again but undos, which do no harm twice.
func (c *Conn) disconnected(err error) {
	if c.config.Lost != nil {
		c.config.Lost()
	}
	var unanswered, over []*Request
	c.mu.Lock()
	c.link, c.down, c.silent = nil, fmt.Errorf("%w: %w", ErrDown, err), time.Time{}
	undos := make([]*Request, 0, len(c.queue))
	c.eachUnanswered(func(r *Request) {
		if !r.replied {
			r.replied = true
			r.Round.Hold()
			unanswered = append(unanswered, r)
		}
		if r.Command.Undo && !r.Round.Over() {
			undos = append(undos, r)
		} else {
			over = append(over, r)
		}
	})
	c.flight, c.queue = groups{}, undos
	if c.draining {
		c.checkDrained()
	}
	down := c.down
	c.mu.Unlock()
	fail(unanswered, down)
	letGo(over)
	c.changed()
}

// fail tells the rounds of requests that were held why there is no reply.
func fail(requests []*Request, err error) {
	for _, r := range requests {
		r.Round.Reply(r.Node, nil, err)
		r.Round.Done()
	}
}

// letGo says of requests that they will not be touched any more. It is called without mu.
func letGo(requests []*Request) {
	for _, r := range requests {
		r.Round.Done()
	}
}

// changed is called without mu.
func (c *Conn) changed() {
	if c.config.Changed != nil && c.ctx.Err() == nil {
		c.config.Changed()
	}
}

// eachUnanswered visits all requests that are unanswered, in order. Called with mu held.
func (c *Conn) eachUnanswered(visit func(*Request)) {
	for i := range c.flight.n {
		g := c.flight.at(i)
		for _, r := range g.requests[g.read:] {
			visit(r)
		}
	}
	for _, r := range c.queue {
		visit(r)
	}
}

// splitOver filters a queue of undos in place, and returns those that have nothing left to undo. Called with mu held.
func splitOver(queue []*Request) (kept, over []*Request) {
	kept = queue[:0]
	for _, r := range queue {
		if r.Round.Over() {
			over = append(over, r)
		} else {
			kept = append(kept, r)
		}
	}
	clear(queue[len(kept):])
	return kept, over
}

func notConnected(why string) error { return fmt.Errorf("%w %s", ErrDown, why) }

// sleep returns after d, or with ctx's error when that is done first.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
