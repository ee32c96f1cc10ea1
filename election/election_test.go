package election

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/boottime"
	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/sim"
)

func TestMain(m *testing.M) {
	boottime.Disable() // virtual time has no such clock
	os.Exit(m.Run())
}

// world is five modelled masters in virtual time.
type world struct {
	*testing.T
	net   *sim.Network
	nodes []*sim.Node
	urls  []string
}

func bubble(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, net: sim.NewNetwork(1)}
		for i := range 5 {
			node := sim.NewNode(fmt.Sprintf("n%d:6379", i), uint64(i))
			w.net.Attach(node)
			w.nodes, w.urls = append(w.nodes, node), append(w.urls, "redis://"+node.Addr())
			t.Cleanup(node.Close)
		}
		f(w)
	})
}

// candidate returns one of the process that the network knows by this name.
func (w *world) candidate(process string, opts ...redlock.LockOption) *Election {
	w.Helper()
	nodes := redlock.WithNodeConfig(redlock.NodeConfig{Dial: w.net.Dialer(process)})
	l := cases.Must(redlock.New(w.urls, nodes, redlock.WithOwnerLabel(process)))(w)
	w.Cleanup(func() { _ = l.Close() })
	return New(l, "boss", opts...)
}

// cut cuts a process off from all nodes for a time.
func (w *world) cut(process string, d time.Duration) {
	link := sim.Link{Client: process}
	w.net.Refuse(link)
	w.net.Cut(link)
	time.Sleep(d)
	w.net.Accept(link)
}

// force takes the term from whoever has it.
func (w *world) force(e *Election) {
	w.Helper()
	led := cases.Must(e.Leader(w.Context()))(w)
	cases.NoError(w, e.inspector.ForceUnlock(w.Context(), e.name, led.Owner))
}

// pairs are what Observe has shown, in words.
type pairs struct {
	mu   sync.Mutex // guards the next two
	all  []string
	last Term

	observer *Election
}

// watch has a process observe until the test ends. It fails the test if what is shown goes back, is shown twice, or
// lacks something.
func (w *world) watch(process string) *pairs {
	o := w.candidate(process)
	p := &pairs{observer: o}
	ctx, stop := context.WithCancel(w.Context())
	ended := make(chan struct{})
	w.Cleanup(func() { stop(); <-ended })
	go func() { // until the test ends
		defer close(ended)
		for term, err := range o.Observe(ctx) {
			p.mu.Lock()
			text, again := term.Value, term.Number == p.last.Number
			switch {
			case errors.Is(err, ErrNoLeader):
				text = "none"
			case err != nil:
				text = "?"
			case term.Number < p.last.Number, term.Value == "", term.Owner == "":
				w.Errorf("%s is shown %+v after %+v", process, term, p.last)
			default:
				p.last = term
			}
			if len(p.all) > 0 && p.all[len(p.all)-1] == text && (again || text == "none") {
				w.Errorf("%s is shown %s twice: %v", process, text, p.all)
			}
			p.all = append(p.all, text)
			p.mu.Unlock()
		}
	}()
	return p
}

// is fails the test unless this has been shown in the end. "none" may stand, and not be wanted, between two leaders.
func (p *pairs) is(t testing.TB, want ...string) {
	t.Helper()
	time.Sleep(2 * time.Second)
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	var got []string
	for i, text := range p.all {
		if text != "none" || i == 0 || i == len(p.all)-1 || slices.Contains(want[min(1, len(want)):], "none") {
			got = append(got, text)
		}
	}
	cases.Equals(t, strings.Join(got, " "), strings.Join(want, " "), "shown of %v", p.all)
}

var errWork = errors.New("the work fails")

// stopping waits for the end of a term, and takes a moment to stop. The term's Unlock is over by then: a bubble's time
// would not go on while a mutex is waited for.
func stopping(ctx context.Context) {
	<-ctx.Done()
	time.Sleep(time.Second)
}

func TestRun(t *testing.T) {
	until := func(ctx context.Context, _ *redlock.Lock) error { stopping(ctx); return context.Cause(ctx) }
	fails := func(context.Context, *redlock.Lock) error { return errWork }
	quiet := func(ctx context.Context, _ *redlock.Lock) error { stopping(ctx); return nil }
	for _, c := range []struct {
		name  string
		first func(context.Context, *redlock.Lock) error // in the first term; in the second the work fails
		do    func(w *world, e *Election, stop func())   // a second after the beginning
		opts  []redlock.LockOption
		value string // "": a
		terms int    // how many Run has
		want  []error
	}{
		{name: "fn is done", first: func(context.Context, *redlock.Lock) error { return nil }, terms: 1},
		{name: "fn fails", first: fails, terms: 1, want: []error{errWork}},
		{
			name: "fn fails after it has unlocked", terms: 1, want: []error{errWork},
			first: func(_ context.Context, term *redlock.Lock) error { return errors.Join(term.Unlock(), errWork) },
		},
		{
			name: "ctx ends, and fn returns nothing", first: quiet, terms: 1, want: []error{context.Canceled},
			do: func(_ *world, _ *Election, stop func()) { stop() },
		},
		{
			name: "ctx ends, and fn fails", terms: 1, want: []error{context.Canceled, errWork},
			first: func(ctx context.Context, _ *redlock.Lock) error { <-ctx.Done(); return errWork },
			do:    func(_ *world, _ *Election, stop func()) { stop() },
		},
		{
			name: "it resigns", first: until, terms: 1, want: []error{redlock.ErrUnlocked},
			do: func(w *world, e *Election, _ func()) { cases.NoError(w, e.Resign()) },
		},
		{
			name: "the term is taken from it", first: until, terms: 2, want: []error{errWork},
			do: func(w *world, e *Election, _ func()) { w.force(e) },
		},
		{
			name: "the term is lost, which fn does not say", first: quiet, terms: 2, want: []error{errWork},
			do: func(w *world, e *Election, _ func()) { w.force(e) },
		},
		{
			name: "it is cut off", first: until, terms: 2, want: []error{errWork},
			do: func(w *world, _ *Election, _ func()) { w.cut("a", 15*time.Second) },
		},
		{
			name: "it has led for the longest time allowed", first: until, terms: 2, want: []error{errWork},
			opts: []redlock.LockOption{redlock.WithMaxHold(3 * time.Second)},
		},
		{
			name: "the Locker is closed", first: until, terms: 1,
			want: []error{redlock.ErrClosed, redlock.ErrNotAcquired},
			do:   func(_ *world, e *Election, _ func()) { _ = e.locker.Close() },
		},
		{
			name: "ctx ends while it waits", want: []error{context.Canceled, redlock.ErrNotAcquired},
			first: until, do: func(_ *world, _ *Election, stop func()) { stop() },
		},
		{
			name: "it has waited for the longest time allowed", want: []error{redlock.ErrMaxWait},
			opts: []redlock.LockOption{redlock.WithMaxWait(time.Second)},
		},
		{name: "the value is too long", value: strings.Repeat("v", 1025), want: []error{redlock.ErrInvalid}},
		{
			name: "it has no token", opts: []redlock.LockOption{redlock.WithoutFencing()},
			want: []error{redlock.ErrInvalid},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				if c.terms == 0 && !errors.Is(c.want[0], redlock.ErrInvalid) { // another leads
					cases.Must(w.candidate("b").Campaign(w.Context(), "b"))(w)
				}
				e := w.candidate("a", c.opts...)
				ctx, stop := context.WithCancel(w.Context())
				defer stop()
				var terms []int64
				ended := make(chan error)
				go func() {
					ended <- e.Run(ctx, cmp.Or(c.value, "a"), func(ctx context.Context, term *redlock.Lock) error {
						if terms = append(terms, term.Token()); len(terms) > 1 {
							return errWork
						}
						return c.first(ctx, term)
					})
				}()
				if time.Sleep(time.Second); c.do != nil {
					c.do(w, e, stop)
				}
				err := <-ended
				if cases.Equals(w, len(terms), c.terms, "terms"); c.want == nil && err != nil {
					w.Errorf("got %v, want no error", err)
				}
				for _, want := range c.want {
					if !errors.Is(err, want) {
						w.Errorf("got %v, want %v", err, want)
					}
				}
				if errors.Is(err, errWork) != slices.Contains(c.want, errWork) {
					w.Errorf("got %v", err)
				}
				if len(terms) == 2 && terms[1] <= terms[0] {
					w.Errorf("the terms are %v", terms)
				}
				if c.terms > 0 && !errors.Is(err, redlock.ErrClosed) { // it has resigned: another leads at once
					begun := time.Now()
					cases.Must(w.candidate("b").Campaign(w.Context(), "b"))(w)
					if took := time.Since(begun); took > time.Second {
						w.Errorf("the next one waited for %v", took)
					}
				}
			})
		})
	}
}

func TestRunResignsWhenItsFunctionPanics(t *testing.T) {
	bubble(t, func(w *world) {
		e := w.candidate("a")
		func() {
			defer func() { cases.Equals[any](w, recover(), "oh", "the panic") }()
			_ = e.Run(w.Context(), "a", func(context.Context, *redlock.Lock) error { panic("oh") })
		}()
		if _, err := e.Leader(w.Context()); !errors.Is(err, ErrNoLeader) {
			w.Errorf("got %v, want no leader", err)
		}
	})
}

func TestCampaign(t *testing.T) {
	bubble(t, func(w *world) {
		e := w.candidate("a")
		cases.NoError(w, e.Resign()) // of no term
		if _, err := e.Campaign(w.Context(), ""); !errors.Is(err, redlock.ErrInvalid) {
			w.Errorf("an empty value: got %v, want ErrInvalid", err)
		}
		term := cases.Must(e.Campaign(w.Context(), "a"))(w)
		within, cancel := term.Context(w.Context())
		defer cancel()
		if _, err := e.Campaign(within, "again"); !errors.Is(err, redlock.ErrInvalid) {
			w.Errorf("within the term: got %v, want ErrInvalid", err)
		}
		led := cases.Must(e.Leader(w.Context()))(w)
		cases.Equals(w, led, Term{term.Token(), "a", term.Owner(), "a"}, "the leader")
		cases.NoError(w, e.Resign())
		if err := term.Err(); !errors.Is(err, redlock.ErrUnlocked) {
			w.Errorf("the term: got %v, want that it is unlocked", err)
		}
		if err := errors.Join(e.Resign(), term.Unlock()); err != nil {
			w.Errorf("once more: %v", err)
		}
	})
}

// A candidate that is cut off after it got the lock, and before it knows that its value is there, campaigns on.
func TestCampaignWhenTheValueIsNotConfirmed(t *testing.T) {
	bubble(t, func(w *world) {
		e := w.candidate("a")
		isOurs := func(arg string) bool { return strings.HasSuffix(arg, " the value") }
		var once sync.Once
		for _, n := range w.nodes {
			n.Observe(func(c sim.Command) {
				if slices.ContainsFunc(c.Args, isOurs) {
					once.Do(func() { go w.cut("a", 3*time.Second) })
				}
			})
		}
		begun := time.Now()
		term := cases.Must(e.Campaign(w.Context(), "the value"))(w)
		if led := cases.Must(e.Leader(w.Context()))(w); led.Number != term.Token() || time.Since(begun) < 3*time.Second {
			w.Errorf("after %v %+v leads, want %d", time.Since(begun), led, term.Token())
		}
	})
}

// What an observer is shown of elections.
func TestObserve(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(w *world, a, b *Election, led *redlock.Lock) // a leads; b waits as soon as it campaigns
		want []string
	}{
		{
			"resigned", func(w *world, a, _ *Election, _ *redlock.Lock) { cases.NoError(w, a.Resign()) },
			[]string{"none", "a", "none"},
		},
		{"two leaders", func(w *world, a, b *Election, _ *redlock.Lock) {
			cases.NoError(w, a.Resign())
			cases.Must(b.Campaign(w.Context(), "b"))(w)
		}, []string{"none", "a", "b"}},
		{"the same one twice", func(w *world, a, _ *Election, _ *redlock.Lock) {
			cases.NoError(w, a.Resign())
			cases.Must(a.Campaign(w.Context(), "a"))(w)
		}, []string{"none", "a", "a"}},
		{"values", func(w *world, _, _ *Election, led *redlock.Lock) {
			for _, value := range []string{"a2", "a2", "a3"} {
				cases.NoError(w, led.SetValue(w.Context(), value))
				time.Sleep(2 * time.Second)
			}
		}, []string{"none", "a", "a2", "a3"}},
		{"force-unlocked", func(w *world, a, _ *Election, _ *redlock.Lock) { w.force(a) }, []string{"none", "a", "none"}},
		{
			"cut off", func(w *world, _, _ *Election, _ *redlock.Lock) { w.cut("a", 20*time.Second) },
			[]string{"none", "a", "none"},
		},
		{
			"the observer is cut off", func(w *world, _, _ *Election, _ *redlock.Lock) { w.cut("observer", 3*time.Second) },
			[]string{"none", "a", "?", "a"},
		},
		{"nobody leads, and the observer is cut off", func(w *world, a, _ *Election, _ *redlock.Lock) {
			cases.NoError(w, a.Resign())
			time.Sleep(2 * time.Second)
			w.cut("observer", 3*time.Second)
		}, []string{"none", "a", "none", "?", "none"}},
		{"handed over", func(w *world, _, b *Election, led *redlock.Lock) {
			ticket := cases.Must(led.Ticket())(w)
			cases.Must(b.locker.Adopt(w.Context(), ticket, redlock.WithValue("b")))(w)
		}, []string{"none", "a", "b"}},
		{"a lock without a value", func(w *world, a, b *Election, _ *redlock.Lock) {
			cases.NoError(w, a.Resign())
			cases.Must(b.locker.Lock(w.Context(), "boss"))(w)
		}, []string{"none", "a", "none"}},
		{"the observer's Locker is closed", nil, []string{"none", "a", "?"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				shown := w.watch("observer")
				time.Sleep(time.Second)
				a, b := w.candidate("a"), w.candidate("b")
				led := cases.Must(a.Campaign(w.Context(), "a"))(w)
				time.Sleep(2 * time.Second)
				if c.do != nil {
					c.do(w, a, b, led)
				} else {
					_ = shown.observer.locker.Close()
				}
				shown.is(w, c.want...)
			})
		})
	}
}

// What a look finds, after what has been shown.
func TestSee(t *testing.T) {
	shown := Term{7, "v", "x", "host"}
	for _, c := range []struct {
		name  string
		last  Term
		found redlock.Inspection
		want  Term
	}{
		{"nobody", Term{}, redlock.Inspection{}, Term{}},
		{"nobody any more", shown, redlock.Inspection{Token: 7}, Term{}},
		{"a term", Term{}, redlock.Inspection{Owner: "x", Token: 7, Value: "v", Label: "host"}, shown},
		{"a hold whose value is not there yet", Term{}, redlock.Inspection{Owner: "x", Token: 7}, Term{}},
		{"a term without its number", Term{}, redlock.Inspection{Owner: "x", Value: "v"}, Term{}},
		{"readers", Term{}, redlock.Inspection{Owner: "readers", Readers: []string{"x"}}, Term{}},
		{"another value", shown, redlock.Inspection{Owner: "x", Token: 7, Value: "w"}, Term{7, "w", "x", ""}},
		{"a value that changes", shown, redlock.Inspection{Owner: "x", Token: 7, Label: "host"}, shown},
		{"a token that is forgotten", shown, redlock.Inspection{Owner: "x", Value: "v", Label: "host"}, shown},
		{"the next term", shown, redlock.Inspection{Owner: "y", Token: 8, Value: "w"}, Term{8, "w", "y", ""}},
		{"the next term, without its value", shown, redlock.Inspection{Owner: "y", Token: 8}, Term{}},
		{"an earlier term", shown, redlock.Inspection{Owner: "y", Token: 6, Value: "w"}, Term{}},
	} {
		o := &Observer{last: c.last}
		got, err := o.see(&c.found)
		if cases.Equals(t, got, c.want, "%s", c.name); (err != nil) != (c.want == Term{}) {
			t.Errorf("%s: the error is %v", c.name, err)
		}
		if want := max(c.last.Number, c.want.Number); o.last.Number != want {
			t.Errorf("%s: %d is remembered, want %d", c.name, o.last.Number, want)
		}
	}
}
