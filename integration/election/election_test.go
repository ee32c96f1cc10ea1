// Package election_test shows on real masters, and with real processes, that elections go on when leaders end in any
// way, and how long observers take to notice.
package election_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/election"
	"github.com/quorumlock/redlock/integration/child"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
)

// clientVariable makes this program a client: a candidate with this value, or the observer.
const clientVariable = "REDLOCK_TEST_ELECTION"

const (
	name = "boss"
	ttl  = 2 * time.Second
)

// client is what a process is told.
type client struct {
	Nodes []string
	Value string // "": it observes
}

// line is what a process tells: a candidate of its terms, and the observer of each pair.
type line struct {
	Did string // by a candidate: "leads", "ends", "resigns"
	At  time.Time
	election.Term
	Err string // of the observer
}

// TestMain is also main of the processes that the tests start.
func TestMain(m *testing.M) {
	if text := os.Getenv(clientVariable); text != "" {
		var c client
		if err := errors.Join(json.Unmarshal([]byte(text), &c), c.run()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	fleet.Main(m)
}

func (c *client) run() error {
	var mu sync.Mutex // a line comes whole
	say := func(l line) {
		mu.Lock()
		defer mu.Unlock()
		l.At = time.Now()
		_ = json.NewEncoder(os.Stdout).Encode(l) // the test may have ended
	}
	opts := []redlock.Option{
		redlock.WithNodeTimeout(5 * time.Second), redlock.WithTTL(ttl),
		redlock.WithNodeConfig(redlock.NodeConfig{NoRestartGuard: true}),
	}
	if c.Value == "" {
		i, err := redlock.NewInspector(c.Nodes, opts...)
		if err != nil {
			return err
		}
		for term, err := range election.NewObserver(i, name).Observe(child.UntilInputEnds()) {
			l := line{Term: term}
			if err != nil {
				l.Err = err.Error()
			}
			say(l)
		}
		return i.Close()
	}
	l, err := redlock.New(c.Nodes, opts...)
	if err != nil {
		return err
	}
	e := election.New(l, name)
	ctx, stop := context.WithCancel(context.Background())
	go func() { // until the input ends
		defer stop()
		for told := bufio.NewScanner(os.Stdin); told.Scan(); {
			say(line{Did: "resigns"})
			_ = e.Resign() // Run says how it ended
		}
	}()
	for ctx.Err() == nil {
		err = e.Run(ctx, c.Value, func(ctx context.Context, term *redlock.Lock) error {
			say(line{Did: "leads", Term: election.Term{Number: term.Token()}})
			<-ctx.Done()
			say(line{Did: "ends"})
			return nil
		})
		if err != nil && ctx.Err() == nil { // the masters may be late
			fmt.Fprintln(os.Stderr, err)
			time.Sleep(100 * time.Millisecond)
		}
	}
	return l.Close()
}

// process is a client, and what it has told.
type process struct {
	*child.Process
	mu   sync.Mutex // guards said
	said []line
}

func start(t *testing.T, c client) *process {
	t.Helper()
	text, err := json.Marshal(c)
	fleet.Must(t, err)
	p := &process{}
	p.Process, err = child.Start(t.Context(), "", []string{clientVariable + "=" + string(text)}, nil, func(text []byte) {
		var l line
		if json.Unmarshal(text, &l) == nil { // a killed process may leave half a line
			p.mu.Lock()
			defer p.mu.Unlock()
			p.said = append(p.said, l)
		}
	})
	fleet.Must(t, err)
	return p
}

// after waits for the first line, from the given one on, of which it is so; it returns the line and its number.
func (p *process) after(t *testing.T, from int, what string, is func(line) bool) (found line, at int) {
	t.Helper()
	fleet.Eventually(t, what, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		for at = from; at < len(p.said); at++ {
			if found = p.said[at]; is(found) {
				return true
			}
		}
		return false
	})
	return found, at
}

func (p *process) lines() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.said)
}

// An observer in a process of its own learns of each end of a term, and of the next leader; it never sees a term go
// back, or without its value.
func TestAnObserverLearnsHowTermsEnd(t *testing.T) {
	fleet.ParallelUnlessJudged(t)
	f := fleet.Start(t, 5)
	admin := f.Locker(t)
	observer := start(t, client{Nodes: masters.URLs(f.Nodes)})
	candidates := map[string]*process{}
	stand := func(value string) { candidates[value] = start(t, client{Nodes: masters.URLs(f.Nodes), Value: value}) }
	for _, value := range []string{"a", "b", "c"} {
		stand(value)
	}
	resigned := func(_ string, p *process) time.Time {
		from := p.lines()
		fleet.Must(t, p.Tell(nil))
		told, _ := p.after(t, from, "it resigns", func(l line) bool { return l.Did == "resigns" })
		return told.At
	}
	leads := func(l line) bool { return l.Number > 0 }
	led, at := observer.after(t, 0, "somebody leads", leads)
	for _, c := range []struct {
		how  string
		most time.Duration // until the observer knows
		do   func(value string, p *process) time.Time
	}{
		{"resigned", 50 * time.Millisecond, resigned},
		{"force-unlocked", 50 * time.Millisecond, func(string, *process) time.Time {
			defer func(owner string) { fleet.Must(t, admin.ForceUnlock(t.Context(), name, owner)) }(led.Owner)
			return time.Now()
		}},
		{"killed", ttl + time.Second, func(value string, p *process) time.Time {
			defer stand(value)
			defer func() { fleet.Must(t, p.Kill()) }()
			return time.Now()
		}},
		{"stopped", ttl + time.Second, func(_ string, p *process) time.Time {
			defer func() { fleet.Must(t, p.Signal(syscall.SIGSTOP)) }()
			return time.Now()
		}},
	} {
		fleet.Measure(t, func(m *fleet.Measurement) {
			var took []time.Duration
			for range fleet.Sized(3, 20) {
				value, p := led.Value, candidates[led.Value]
				_, began := p.after(t, 0, "it leads", func(l line) bool { return l.Number == led.Number })
				begun, from := c.do(value, p), at+1
				gone, _ := observer.after(t, from, "the term is over", func(l line) bool { return l.Number != led.Number })
				took = append(took, gone.At.Sub(begun).Round(100*time.Microsecond))
				before := led
				led, at = observer.after(t, from, "the next one leads", func(l line) bool { return l.Number > before.Number })
				if c.how == "stopped" {
					fleet.Must(t, p.Signal(syscall.SIGCONT))
					p.after(t, began, "it knows that its term is over", func(l line) bool { return l.Did == "ends" })
				}
			}
			m.Bound(slices.Max(took) <= c.most, "%s: the observer knew after %v, wanted %v", c.how, took, c.most)
		})
	}
	for _, p := range candidates {
		fleet.Must(t, p.End())
	}
	observer.after(t, at+1, "nobody leads", func(l line) bool { return l.Err == election.ErrNoLeader.Error() })
	fleet.Must(t, observer.End())

	var last election.Term
	terms := map[int64]string{} // which candidate had the number
	for _, l := range observer.said {
		switch {
		case l.Err == election.ErrNoLeader.Error():
		case l.Err != "": // the machine was busy; after it, the same term may come again
			t.Logf("the observer was told: %s", l.Err)
			delete(terms, last.Number)
		case l.Number < last.Number, l.Number == 0, candidates[l.Value] == nil:
			fleet.Unsafe(t, "%+v was shown after %+v", l.Term, last)
		case terms[l.Number] != "":
			t.Errorf("%+v was shown twice", l.Term)
		default:
			last, terms[l.Number] = l.Term, l.Value
		}
	}
	for value, p := range candidates { // what those that were killed have told is lost
		for _, l := range p.said {
			if seen := terms[l.Number]; l.Number > 0 && seen != "" && seen != value {
				fleet.Unsafe(t, "term %d of %s was shown as one of %s", l.Number, value, seen)
			}
		}
	}
	t.Logf("the observer was shown %d terms in %d pairs", len(terms), len(observer.said))
}
