package migration_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/redlock/integration/child"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/tokens"
)

// lists are those of a client, by the masters' numbers.
type lists struct {
	from, to []int // no to: one list
}

// during returns what a client has while one list is replaced by another.
func during(from, to []int) lists { return lists{from, to} }

func only(list []int) lists { return lists{from: list} }

func (l lists) String() string {
	if l.to == nil {
		return fmt.Sprint(l.from)
	}
	return fmt.Sprint(l.from, "+", l.to)
}

// history is what all clients have told.
type history struct {
	mu      sync.Mutex // guards the following fields
	holds   []tokens.Hold
	latest  map[turn]time.Duration // the last grant
	counts  map[string]int         // acquisitions by lists
	mishaps map[string][]string    // what was lost and what failed

	unanswered int
}

// turn is an acquisition of a name by any client with these lists.
type turn struct {
	lists, name string
}

func newHistory() *history {
	return &history{latest: map[turn]time.Duration{}, counts: map[string]int{}, mishaps: map[string][]string{}}
}

// since returns how many of the names clients with these lists have acquired after the time.
func (h *history) since(l lists, at time.Duration) (names int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range turnNames {
		if h.latest[turn{l.String(), name}] > at {
			names++
		}
	}
	return names
}

// complain fails the test for what was lost and what failed, once.
func (h *history) complain(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for what, texts := range h.mishaps {
		t.Errorf("%d %s, such as:\n  %s", len(texts), what, strings.Join(texts[:min(5, len(texts))], "\n  "))
	}
	clear(h.mishaps)
}

// process is a client as the test sees it.
type process struct {
	*child.Process
	lists lists
	all   *history

	mu      sync.Mutex // guards the following fields
	serving bool       // it has acquired
	held    []tokens.Hold
}

// urlsOf returns the lists as URLs.
func urlsOf(f fleet.Fleet, l lists) (from, to []string) {
	for _, i := range l.from {
		from = append(from, f.Nodes[i].URL())
	}
	for _, i := range l.to {
		to = append(to, f.Nodes[i].URL())
	}
	return from, to
}

// startClient starts a client with the lists, which it adds to the job. Nothing waits until it works.
func startClient(t *testing.T, f fleet.Fleet, l lists, j job, all *history) *process {
	t.Helper()
	j.From, j.To = urlsOf(f, l)
	text, err := json.Marshal(j)
	fleet.Must(t, err)
	p := &process{lists: l, all: all}
	p.Process, err = child.Start(t.Context(), "", []string{clientVariable + "=" + string(text)}, nil, func(text []byte) {
		var l line
		if json.Unmarshal(text, &l) == nil { // a killed process may leave half a line
			p.hear(l)
		}
	})
	fleet.Must(t, err)
	return p
}

func (p *process) hear(l line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	kind := p.lists.String()
	switch l.Did {
	case acquired:
		p.serving = true
		p.held = append(p.held, l.Hold)
		p.all.counts[kind]++
		of := turn{kind, l.Hold.Name}
		p.all.latest[of] = max(p.all.latest[of], l.Hold.Granted)
		return
	case unanswered:
		p.all.unanswered++
	case lost, failed:
		p.all.mishaps[l.Did] = append(p.all.mishaps[l.Did], fmt.Sprintf("%s %+v: %s", kind, l.Hold, l.Why))
	}
	// What Unlock finds lost has been told as released.
	if at := slices.IndexFunc(p.held, func(h tokens.Hold) bool { return h.Name == l.Hold.Name }); at >= 0 {
		p.held = slices.Delete(p.held, at, at+1)
		p.all.holds = append(p.all.holds, l.Hold)
	}
}

// serves reports whether it has acquired.
func (p *process) serves() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.serving
}

// holdsLong reports whether it has a hold that lasts.
func (p *process) holdsLong() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.held, func(h tokens.Hold) bool { return slices.Contains(longNames, h.Name) })
}

// stop lets it finish what it does, as a deployment would.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if err := errors.Join(p.Signal(syscall.SIGTERM), p.Wait()); err != nil {
		t.Errorf("a client with %s ended with: %v", p.lists, err)
	}
	if len(p.held) > 0 {
		t.Errorf("a client with %s ended and did not let go of %+v", p.lists, p.held)
	}
}

// kill is kill -9. What it held ended then; the nodes keep it longer. It returns how many holds that were.
func (p *process) kill(t *testing.T) int {
	t.Helper()
	fleet.Must(t, p.Kill())
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	for _, h := range p.held {
		h.Ended = now()
		p.all.holds = append(p.all.holds, h)
	}
	return len(p.held)
}
