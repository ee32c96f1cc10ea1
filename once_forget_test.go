package redlock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/runs"
)

func TestForget(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		a, admin := fl.locker("a"), fl.locker("admin")
		for range 3 {
			_ = a.Once(t.Context(), "job", fail)
		}
		fails(t, a.Once(t.Context(), "job", succeed), ErrRunsExhausted, "after three failures")
		was := must(admin.Forget(t.Context(), "job"))(t)
		if was.Begun != 3 || was.Last != runs.Failed || was.Token == 0 {
			t.Errorf("what was forgotten: %+v", was)
		}
		if i := must(admin.Inspect(t.Context(), "job"))(t); i.Runs != (Runs{}) || i.Owner != "" {
			t.Errorf("afterwards: %+v", i)
		}
		equals(t, must(admin.Forget(t.Context(), "job"))(t), Runs{}, "what was forgotten twice")
		succeeds(t, a.Once(t.Context(), "job", succeed), "the first run again")
		if i := must(admin.Inspect(t.Context(), "job"))(t); i.Runs.Begun != 1 || i.Runs.Last != runs.Done {
			t.Errorf("runs: %+v", i.Runs)
		}
		fails(t, a.Once(t.Context(), "job", succeed), ErrAlreadyRun, "done")
		must(admin.Forget(t.Context(), "job"))(t)
		succeeds(t, a.Once(t.Context(), "job", succeed), "done again")
	})
}

// A node that was out of reach has an older entry: it counts no more, whichever nodes are read; nor if the others had
// none, or if the note that there are no runs was to be kept for a shorter time than the entry.
func TestForgetCountsOnNodesOutOfReach(t *testing.T) {
	for name, c := range map[string]struct {
		lost bool // by the nodes within reach
		opts []OnceOption
	}{
		"all have it":             {},
		"a minority has it":       {lost: true},
		"its done TTL is shorter": {opts: []OnceOption{WithDoneTTL(time.Minute)}},
	} {
		bubble(t, 5, func(t *testing.T, fl *fleet) {
			a, admin := fl.locker("a"), fl.locker("admin")
			succeeds(t, a.Once(t.Context(), "job", succeed))
			settleNetwork()
			fl.cut("admin", 0, 1)
			for _, n := range fl.nodes[2:] {
				if c.lost {
					n.Do("DEL", "redlock:once:job")
				}
			}
			must(admin.Forget(t.Context(), "job", c.opts...))(t)
			_ = admin.Close()
			for i := range 2 {
				if text := fl.nodes[i].Do("GET", "redlock:once:job"); text == nil {
					t.Errorf("%s: node %d was to keep the entry", name, i)
				}
			}
			time.Sleep(time.Hour)
			fl.cut("c", 4) // so that the old entries are among those that are read
			ran := false
			if err := fl.locker("c").Once(t.Context(), "job", func(context.Context, *Lock) error {
				ran = true
				return nil
			}); err != nil || !ran {
				t.Errorf("%s: ran %t, %v", name, ran, err)
			}
		})
	}
}

func TestForgetWhatIsNotKnownLeavesNothing(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		equals(t, must(fl.locker("a").Forget(t.Context(), "typo"))(t), Runs{}, "what was forgotten")
		settleNetwork()
		equals(t, fl.holding("redlock:once:typo")+fl.holding("typo"), 0, "keys left")
	})
}

// A run that is in progress cannot be forgotten; nor is a job without a majority.
func TestForgetIsRefused(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		a, admin := fl.locker("a"), fl.locker("admin")
		_ = a.Once(t.Context(), "job", func(ctx context.Context, _ *Lock) error {
			_, err := admin.Forget(ctx, "job")
			if !errors.Is(err, ErrTaken) || !strings.HasPrefix(err.Error(), "redlock: forget job: taken by ") {
				t.Errorf("while it runs: %v", err)
			}
			fails(t, errOf(a.Forget(ctx, "job")), ErrInvalid, "inside of it")
			return nil
		})
		fails(t, errOf(admin.Forget(t.Context(), "")), ErrInvalid, "no name")
		fails(t, errOf(admin.Forget(t.Context(), "job", WithoutFencing())), ErrInvalid, "without tokens")
		fl.cut("admin", 0, 1)
		fails(t, errOf(admin.Forget(t.Context(), "job")), ErrNoQuorum, "without a majority")
		fails(t, a.Once(t.Context(), "job", mustNotRun(t)), ErrAlreadyRun, "nothing was to be forgotten")
	})
}
