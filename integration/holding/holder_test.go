package holding_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/child"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
	"github.com/quorumlock/redlock/internal/cases"
)

// holderNodes makes this program the holder: these are the nodes' URLs.
const holderNodes = "REDLOCK_TEST_HOLDER_NODES"

const (
	holderName = "stock"
	holderTTL  = time.Second
)

// register is the demo resource: a value that refuses whoever comes with a token smaller than the largest it has seen.
type register struct {
	token   int64
	value   string
	refused int
}

func (r *register) write(token int64, value string) {
	if token < r.token {
		r.refused++
		return
	}
	r.token, r.value = token, value
}

// message is what the holder's process says: a write to the register, or how its hold ended.
type message struct {
	Kind  string // "write": through its context; "late": in spite of it; "end"
	Token int64
	At    time.Time // when it was sure, a moment before it looked at its context
	Why   string    // "end"
}

// runHolder is main of the process that is going to be stopped: it writes
// through lock.Context as long as that lets it, and then once more.
func runHolder() int {
	say := json.NewEncoder(os.Stdout).Encode
	err := func() error {
		// No restart guard: the masters have just been started.
		l, err := redlock.New(strings.Split(os.Getenv(holderNodes), ","), redlock.WithTTL(holderTTL),
			redlock.WithNodeTimeout(5*time.Second), redlock.WithNodeConfig(redlock.NodeConfig{NoRestartGuard: true}))
		if err != nil {
			return err
		}
		k, err := l.Lock(context.Background(), holderName)
		if err != nil {
			return err
		}
		ctx, cancel := k.Context(context.Background())
		defer cancel()
		for ; ; time.Sleep(time.Millisecond) {
			write := message{Kind: "write", Token: k.Token(), At: time.Now()}
			if ctx.Err() != nil { // as everything looks that takes a context
				break
			}
			if err := say(write); err != nil {
				return err
			}
		}
		<-k.Done() // else it hangs, and the test fails
		return errors.Join(say(message{Kind: "late", Token: k.Token()}),
			say(message{Kind: "end", Token: k.Token(), Why: context.Cause(ctx).Error()}))
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// The scenario of the literature, with the process really stopped: nothing in it can run, neither the library's timer
// nor the garbage collector. It goes on right where it was, between two writes, when somebody else holds the lock.
func TestAStoppedHolderWritesNothingAfterItsEnd(t *testing.T) {
	t.Parallel()
	f := fleet.Start(t, 5)
	through, inFlight, late := 0, 0, 0
	rounds := fleet.Sized(3, 50)
	for range rounds {
		said := make(chan message, 1<<16)
		env := []string{holderNodes + "=" + strings.Join(masters.URLs(f.Nodes), ",")}
		p, err := child.Start(t.Context(), "", env, nil, func(line []byte) {
			var m message
			if err := json.Unmarshal(line, &m); err != nil {
				t.Errorf("the holder said %q: %v", line, err)
			}
			said <- m
		})
		cases.NoError(t, err)
		var r register
		var first message
		for range 20 {
			first = <-said
			if r.write(first.Token, first.Kind); first.Kind != "write" {
				t.Fatalf("the holder said %+v before it was stopped: did the machine stand still for its TTL?", first)
			}
		}
		cases.NoError(t, p.Signal(syscall.SIGSTOP))

		k := fleet.Lock(t, f.Locker(t), holderName) // after the TTL: the stopped holder renews nothing
		if k.Token() <= first.Token {
			fleet.Unsafe(t, "the successor's token is %d, the stopped holder's %d", k.Token(), first.Token)
		}
		for len(said) > 0 { // what it had said before
			m := <-said
			r.write(m.Token, m.Kind)
		}
		r.write(k.Token(), "successor")
		resumed := time.Now()
		cases.NoError(t, p.Signal(syscall.SIGCONT))
		cases.NoError(t, p.Wait())
		close(said)

		ended := false
		for m := range said {
			switch {
			case m.Kind == "end":
				ended = true
				if !strings.Contains(m.Why, "lost") {
					t.Errorf("the hold ended with %q, want %v", m.Why, redlock.ErrLost)
				}
				continue
			case m.Kind == "late":
				late++
			case m.At.Before(resumed):
				inFlight++ // it had looked before it was stopped: nothing but the token helps
			default:
				through++
				fleet.Unsafe(t, "a write went through lock.Context %v after the process was resumed", m.At.Sub(resumed))
			}
			r.write(m.Token, m.Kind)
		}
		if !ended {
			t.Error("the holder does not say how its hold ended")
		}
		if r.value != "successor" || r.token != k.Token() {
			fleet.Unsafe(t, "the register has %q with token %d: the successor's work was overwritten", r.value, r.token)
		}
		if r.refused == 0 {
			t.Error("the register refused nothing")
		}
		cases.NoError(t, k.Unlock())
	}
	t.Logf("%d holders stopped past their validity and resumed: %d writes through lock.Context after that, "+
		"%d already past the check and refused, %d sent in spite of it and refused",
		rounds, through, inFlight, late)
}
