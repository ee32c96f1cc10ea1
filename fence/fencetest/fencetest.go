// Package fencetest proves that a store loses nothing when holders of a lock come too late.
//
// [Run] plays interleavings of holders that read, think and write, with fencing tokens that grow from hold to hold. Any
// of them may be paused between any two calls, and at each [Step] inside one, and go on after later holders have come;
// it may repeat a write whose answer it has not got. An update is lost if its write was confirmed, and what is in the
// store at the end knows nothing of it. Run needs no Redis and no lock.
package fencetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/redlock/fence"
)

// Store is a value in a store of yours, which holders read and write: short lists of letters. To a holder that is late
// the store returns an error that satisfies errors.Is for [fence.ErrOvertaken]; any other error fails the test. All
// begins with a write of nothing, "", which makes the value if there is none.
//
// A store in which something expires should have a method Advance(time.Duration), which has that much time go by.
type Store interface {
	Read(ctx context.Context, h fence.Holder) (value string, err error)
	Write(ctx context.Context, h fence.Holder, value string) error
}

// Run plays 1,000 interleavings with the store, or 100 with -short, and fails the test with the shortest that goes
// wrong: an update is lost, a refused write was made, or the holder of the lock was refused. The same ones are played
// each time.
//
// Call Step between the statements of the store, or pairs of calls that overlap do so by chance. Run makes some 9,000
// calls, so a database should not wait for its disk. Each Run needs a new store, or one whose mark is not set: tokens
// begin with 8, and soon jump from one power of ten to the next, to show who compares them as text.
func Run(t testing.TB, store Store) {
	t.Helper()
	seeds := uint64(1000)
	if testing.Short() {
		seeds = 100
	}
	(&runner{store: store, next: firstToken, patience: time.Millisecond}).run(t, seeds)
}

func (r *runner) run(t testing.TB, seeds uint64) {
	t.Helper()
	wrong, lost := 0, 0
	var worst *play
	for seed := range seeds {
		p := r.play(t.Context(), plan(rand.New(rand.NewPCG(seed, 0))))
		if p.verdict == "" {
			continue
		}
		wrong, lost = wrong+1, lost+p.lost
		if worst == nil || len(p.lines) > 0 && len(p.lines) < len(worst.lines) {
			worst = p
		}
	}
	if worst == nil {
		return
	}
	worst = r.shorten(t.Context(), worst)
	t.Errorf("%d of %d interleavings go wrong, %d updates are lost; the shortest:\n%s", wrong, seeds, lost, worst)
}

// kind is a call, or what is called like one here.
type kind uint8

const (
	read kind = iota
	write
	again // the same write once more
)

// step is what one holder does next.
type step struct {
	holder int // the later ones have larger tokens
	kind   kind
	pause  int // at which Step inside it the next step begins, if that is another holder's; 0: at its end
	late   bool
}

// plan draws an interleaving. A holder begins when the one before has begun: that is what a pause looks like.
func plan(r *rand.Rand) []step {
	var todo [][]step
	for h := range 2 + r.IntN(2) {
		one := []step{{holder: h, kind: read}, {holder: h, kind: write}}
		switch r.IntN(4) {
		case 0:
			one = append(one, step{holder: h, kind: again})
		case 1:
			one = append(one, step{holder: h, kind: write})
		case 2:
			one = append(one, step{holder: h, kind: read}, step{holder: h, kind: write})
		}
		todo = append(todo, one)
	}
	var steps []step
	for begun := 0; ; {
		able := slices.Collect(func(yield func(int) bool) {
			for h := range min(begun+1, len(todo)) {
				if len(todo[h]) > 0 && !yield(h) {
					return
				}
			}
		})
		if len(able) == 0 {
			return steps
		}
		h := able[r.IntN(len(able))]
		next := todo[h][0]
		next.pause, next.late = max(0, r.IntN(8)-4), r.IntN(8) == 0
		steps, todo[h], begun = append(steps, next), todo[h][1:], max(begun, h+1)
	}
}

// runner plays with one store after the other what was planned.
type runner struct {
	store    Store
	next     int64         // the next token
	usual    time.Duration // how long a call takes
	patience time.Duration // how long a call that is paused waits at least for another's end, which may wait for it
	steps    atomic.Bool   // the store has called Step
}

const (
	firstToken = 8
	anyToken   = 1_700_000_000_000_000
)

// tokens returns the tokens of the holders of an interleaving, and of the one that looks at the end.
func (r *runner) tokens(n int) []int64 {
	var all []int64
	for i := range n {
		all = append(all, r.next+int64(i))
	}
	if r.next = all[n-1] + 1; r.next < anyToken {
		shift := int64(10)
		for shift*10 <= all[n-1] {
			shift *= 10
		}
		r.next = max(r.next, min(shift*10-2, anyToken))
	}
	return all
}

// play is an interleaving that is played.
type play struct {
	steps   []step // those that were possible
	holders []holder
	newest  int64           // the largest token that was not refused
	updates map[string]bool // whether each was confirmed

	lines   []string
	verdict string // what is wrong; "": nothing
	lost    int
}

// holder is one in an interleaving.
type holder struct {
	fence.Holder
	token   int64
	has     string // what it has read, with what it has written since
	wrote   string // its last value
	update  string // in it
	came    bool   // it has read
	stopped bool   // it was refused
}

// outcome is what became of a call.
type outcome struct {
	value string
	err   error
	how   string
}

func (p *play) String() string {
	var b strings.Builder
	for i, line := range p.lines {
		fmt.Fprintf(&b, "%3d. %s\n", i+1, line)
	}
	return b.String() + "     " + p.verdict
}

func (p *play) of(s step) *holder { return &p.holders[s.holder] }

// can reports whether the holder is still there, and has done what comes before.
func (p *play) can(s step) bool {
	h := p.of(s)
	return !h.stopped && (s.kind == read || h.came) && (s.kind != again || h.wrote != "")
}

// prepare has a holder know what it writes.
func (p *play) prepare(s step) {
	if h := p.of(s); s.kind == write {
		h.update = string(rune('a' + len(p.updates)))
		h.wrote = strings.TrimPrefix(h.has+" "+h.update, " ")
		p.updates[h.update] = false
	}
}

// play plays an interleaving, from an empty value on.
func (r *runner) play(ctx context.Context, steps []step) *play {
	last := 0
	for _, s := range steps {
		last = max(last, s.holder)
	}
	tokens := r.tokens(last + 3)
	p := &play{newest: tokens[0], updates: make(map[string]bool)}
	for _, token := range tokens[1 : last+2] {
		p.holders = append(p.holders, holder{Holder: holderOf(token), token: token})
	}
	if err := r.store.Write(ctx, holderOf(tokens[0]), ""); err != nil {
		p.fail("the first write fails, as if the store had seen tokens before: %v", err)
	}
	for i := 0; i < len(steps) && p.verdict == ""; i++ {
		s := steps[i]
		if !p.can(s) {
			continue
		}
		p.steps = append(p.steps, s)
		if clock, ok := r.store.(interface{ Advance(d time.Duration) }); ok && s.late {
			clock.Advance(24 * time.Hour)
			p.lines = append(p.lines, "a day goes by")
		}
		p.prepare(s)
		if i+1 == len(steps) || s.pause == 0 || steps[i+1].holder == s.holder || !p.can(steps[i+1]) {
			begun := time.Now()
			p.conclude(s, r.call(ctx, p.of(s), s.kind, &pause{}), p.newest)
			r.usual += (time.Since(begun) - r.usual) / 8
			continue
		}
		i++
		p.steps = append(p.steps, steps[i])
		p.prepare(steps[i])
		most := max(p.newest, p.of(s).token, p.of(steps[i]).token) // either may be there first
		first, second := r.both(ctx, p, s, steps[i])
		p.conclude(s, first, most)
		p.conclude(steps[i], second, most)
	}
	if p.verdict == "" {
		p.judge(ctx, r.store, holderOf(tokens[last+2]))
	}
	return p
}

func (r *runner) call(ctx context.Context, h *holder, k kind, at *pause) (o outcome) {
	at.steps = &r.steps
	ctx = context.WithValue(ctx, stepKey{}, at)
	if k == read {
		o.value, o.err = r.store.Read(ctx, h)
	} else {
		o.err = r.store.Write(ctx, h, h.wrote)
	}
	return o
}

func holderOf(token int64) fence.Holder {
	h, err := fence.Parse("fencetest", strconv.FormatInt(token, 10))
	if err != nil {
		panic(err)
	}
	return h
}

// stepKey is the context key of a call that is to be paused.
type stepKey struct{}

// pause is where a call is to be paused.
type pause struct {
	left  int // Steps until there
	do    func()
	steps *atomic.Bool
}

// Step says that a call may be paused here: between two statements of a store, if ctx is that of the call. Elsewhere it
// does nothing.
func Step(ctx context.Context) {
	if p, ok := ctx.Value(stepKey{}).(*pause); ok {
		p.steps.Store(true)
		if p.left--; p.left == 0 {
			p.do()
		}
	}
}

// both makes a call, and another when the first one is at its Step, or else when it has ended; at the same moment if
// the store has no Step.
func (r *runner) both(ctx context.Context, p *play, s, meanwhile step) (first, second outcome) {
	ended := make(chan struct{})
	begin := func() {
		go func() {
			defer close(ended)
			second = r.call(ctx, p.of(meanwhile), meanwhile.kind, &pause{})
		}()
	}
	at := &pause{left: s.pause, do: func() {
		begin()
		select {
		case <-ended:
		case <-time.After(max(r.patience, 4*r.usual)):
		}
	}}
	if !r.steps.Load() {
		begin()
		first = r.call(ctx, p.of(s), s.kind, &pause{})
		first.how = fmt.Sprintf("while holder %d calls, ", meanwhile.holder+1)
		<-ended
		return first, second
	}
	if first = r.call(ctx, p.of(s), s.kind, at); at.left > 0 {
		begin()
	} else {
		first.how = fmt.Sprintf("paused inside while holder %d calls, ", meanwhile.holder+1)
	}
	<-ended
	return first, second
}

// conclude notes what has become of a call. Who has the largest token, most, must not be refused.
func (p *play) conclude(s step, o outcome, most int64) {
	h := p.of(s)
	line := fmt.Sprintf("holder %d, token %d, %s", s.holder+1, h.token, o.how)
	switch s.kind {
	case read:
		line += "reads"
	case write:
		line += fmt.Sprintf("writes %q", h.wrote)
	case again:
		line += fmt.Sprintf("has no answer, and writes %q again", h.wrote)
	}
	switch late := errors.Is(o.err, fence.ErrOvertaken); {
	case late:
		line += ": refused"
		if h.stopped = true; h.token >= most {
			p.fail("the holder of the lock was refused")
		}
	case o.err != nil:
		p.fail("that fails: %v", o.err)
	case s.kind == read:
		line += fmt.Sprintf(": %q", o.value)
		h.has, h.came, p.newest = o.value, true, max(p.newest, h.token)
	default:
		line += ": done"
		h.has, p.updates[h.update], p.newest = h.wrote, true, max(p.newest, h.token)
	}
	p.lines = append(p.lines, line)
}

func (p *play) fail(format string, args ...any) {
	if p.verdict == "" {
		p.verdict = fmt.Sprintf(format, args...)
	}
}

// judge looks at what is in the store at the end.
func (p *play) judge(ctx context.Context, store Store, h fence.Holder) {
	value, err := store.Read(ctx, h)
	if err != nil {
		p.fail("the last read of all fails: %v", err)
	}
	has := strings.Fields(value)
	var lost []string
	for _, update := range slices.Sorted(maps.Keys(p.updates)) {
		switch in := slices.Contains(has, update); {
		case p.updates[update] && !in:
			lost = append(lost, update)
		case !p.updates[update] && in:
			p.fail("at the end it is %q: %s was refused, and is there", value, update)
		}
	}
	if p.lost = len(lost); p.lost > 0 {
		p.fail("at the end it is %q: LOST %s", value, strings.Join(lost, ", "))
	}
}

// shorten leaves out what is not needed to show what is wrong.
func (r *runner) shorten(ctx context.Context, p *play) *play {
	for i := 0; i < len(p.steps); {
		plain, q := slices.Clone(p.steps), p
		plain[i].pause, plain[i].late = 0, false
		for _, steps := range [][]step{slices.Delete(slices.Clone(p.steps), i, i+1), plain} {
			if slices.Equal(steps, p.steps) {
				continue
			}
			if q = r.play(ctx, steps); q.verdict != "" && len(q.lines) > 0 && inOrder(q.steps) {
				break
			}
			q = p
		}
		if q == p {
			i++
		} else {
			p, i = q, 0
		}
	}
	return p
}

// inOrder reports whether no holder begins before an earlier one.
func inOrder(steps []step) bool {
	begun := 0
	for _, s := range steps {
		if s.holder > begun {
			return false
		}
		begun = max(begun, s.holder+1)
	}
	return true
}
