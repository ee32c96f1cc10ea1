package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/sim"
)

// crash ends a client at once: it sends nothing any more.
func (fl *fleet) crash(client string, l *Locker) {
	fl.net.Cut(sim.Link{Client: client})
	_ = l.Close()
}

// An entry that an earlier holder wrote to a minority only is either read, and completed, or never counts.
func TestOnceMinorityWrites(t *testing.T) {
	for _, c := range []struct {
		name   string
		before []string // the registers written by an earlier hold
		want   string   // afterwards
		err    error
	}{
		{"begun, seen", []string{"1 begun", "", ""}, "2 done, 2 done, 2 done", nil},
		{"failed, seen", []string{"1 begun", "1 failed", "1 begun"}, "2 done, 2 done, 2 done", nil},
		{"done, seen", []string{"1 done", "1 begun", "1 begun"}, "1 done, 1 done, 1 done", ErrAlreadyRun},
		{"done, the others lost it", []string{"", "1 done", ""}, "1 done, 1 done, 1 done", ErrAlreadyRun},
		{
			"the last run begun, seen",
			[]string{"3 begun", "2 failed", "2 failed"},
			"3 failed, 3 failed, 3 failed", ErrRunsExhausted,
		},
		{"not begun, seen", []string{"3 begun", "3 not-begun", "3 begun"}, "3 done, 3 done, 3 done", nil},
		{"not begun, unseen", []string{"3 begun", "3 begun", "3 not-begun: dead"}, "3 failed, 3 failed, -", ErrRunsExhausted},
		{"begun, not seen", []string{"", "", "1 begun: dead"}, "1 done, 1 done, -", nil},
		{"done, not seen", []string{"", "", "1 done: dead"}, "1 done, 1 done, -", nil},
		{"done, one node lacks it", []string{"1 done", "1 done", ""}, "1 done, 1 done, 1 done", ErrAlreadyRun},
	} {
		subtest(t, c.name, 3, func(t *testing.T, fl *fleet) {
			l := fl.locker("a")
			first := must(l.TryLock(t.Context(), "job"))(t)
			_ = first.Unlock()
			settleNetwork()
			for i, text := range c.before {
				text, dead := strings.CutSuffix(text, ": dead")
				if text != "" {
					fl.nodes[i].Do("SET", "redlock:once:job", fmt.Sprintf("%d %s", first.Token(), text), "PX", "60000")
				}
				if dead {
					fl.nodes[i].Crash(false)
				}
			}
			ran := 0
			err := l.Once(t.Context(), "job", func(context.Context, *Lock) error { ran++; return nil })
			if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) || (ran == 1) != (c.err == nil) {
				t.Errorf("got %v, %d runs, want %v", err, ran, c.err)
			}
			fl.wantRegister("job", c.want)
			if c.err != nil && fl.nodes[0].Do("PTTL", "redlock:once:job").(int64) > 60000 {
				t.Error("an entry that was only repeated has a longer TTL than before")
			}
		})
	}
}

// An entry on a minority that the next holder did not read must not count later.
func TestOnceUnreadMinorityWriteIsSuperseded(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		first := must(l.TryLock(t.Context(), "job"))(t)
		_ = first.Unlock()
		settleNetwork()
		fl.nodes[2].Do("SET", "redlock:once:job", fmt.Sprintf("%d 1 done", first.Token()), "PX", "600000")
		fl.nodes[2].Pause()
		fails(t, l.Once(t.Context(), "job", fail), errJob, "job's error")
		fl.nodes[2].Resume()
		time.Sleep(2 * time.Second)
		succeeds(t, l.Once(t.Context(), "job", succeed), "the superseded success counts")
		fl.wantRegister("job", "2 done, 2 done, 2 done")
	})
}

func TestOnceNodeFailuresDuringEachWrite(t *testing.T) {
	for _, c := range []struct {
		name       string
		before, in func(fl *fleet) // when Once is called, and inside the run
		runs       int
		err        error
		register   string
	}{
		{"a minority down", func(fl *fleet) { fl.down(0, 1) }, nil, 1, nil, "-, -, 1 done, 1 done, 1 done"},
		{"a minority dies during the run", nil, func(fl *fleet) { fl.down(0, 1) }, 1, nil, "-, -, 1 done, 1 done, 1 done"},
		{"a majority pauses before the run is written", func(fl *fleet) {
			time.AfterFunc(2*ms, func() { fl.pause(2*time.Second, 0, 1, 2) })
		}, nil, 1, nil, "1 done, 1 done, 1 done, 1 done, 1 done"},
		{
			"a majority pauses before the success is written", nil, func(fl *fleet) { fl.pause(2*time.Second, 0, 1, 2) },
			1, nil, "1 done, 1 done, 1 done, 1 done, 1 done",
		},
		{"a majority is out of memory for a while", nil, func(fl *fleet) {
			for _, n := range fl.nodes[:3] {
				n.SetConfig("maxmemory", "1")
				time.AfterFunc(5*time.Second, func() { n.SetConfig("maxmemory", "0") })
			}
		}, 1, nil, "1 done, 1 done, 1 done, 1 done, 1 done"},
		{
			"a majority dies during the run", nil, func(fl *fleet) { fl.down(0, 1, 2) },
			1, ErrNoQuorum, "-, -, -, 1 done, 1 done",
		},
		{"a majority dies before the run is written", func(fl *fleet) {
			time.AfterFunc(2*ms, func() { fl.down(0, 1, 2) })
		}, nil, 0, ErrNoQuorum, "-, -, -, 1 begun, 1 begun"},
		{"no majority from the start", func(fl *fleet) { fl.down(0, 1, 2) }, nil, 0, ErrNoQuorum, "-, -, -, -, -"},
	} {
		subtest(t, c.name, 5, func(t *testing.T, fl *fleet) {
			l := fl.locker("a")
			ctx := expiring(t, 40*time.Second)
			if c.before != nil {
				c.before(fl)
			}
			ran := 0
			err := l.Once(ctx, "job", func(context.Context, *Lock) error {
				ran++
				if c.in != nil {
					c.in(fl)
				}
				return nil
			})
			if ran != c.runs || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
				t.Errorf("%d runs, %v; want %d, %v", ran, err, c.runs, c.err)
			}
			fl.wantRegister("job", c.register)
		})
	}
}

// down kills nodes, which lose their data.
func (fl *fleet) down(nodes ...int) {
	for _, i := range nodes {
		fl.nodes[i].Crash(false)
	}
}

func (fl *fleet) pause(d time.Duration, nodes ...int) {
	for _, i := range nodes {
		fl.nodes[i].Pause()
		time.AfterFunc(d, fl.nodes[i].Resume)
	}
}

// The register of a node that restarted empty does not count until the restart guard's period is over.
func TestOnceAbstainingNodesDoNotCount(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		fl.down(2)
		succeeds(t, l.Once(t.Context(), "job", succeed))
		fl.nodes[2].Restart()
		fl.down(0)
		fl.nodes[0].Restart() // one of the two nodes with the entry is empty now, and the third never had it
		time.Sleep(2 * time.Second)
		ctx := expiring(t, 10*time.Second)
		fails(t, l.Once(ctx, "job", mustNotRun(t)), ErrNoQuorum)
		fails(t, l.Once(t.Context(), "job", mustNotRun(t)), ErrAlreadyRun,
			"after the guard period, from the one node with the entry")
		fl.wantRegister("job", "1 done, 1 done, 1 done")
	})
}
