package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/cases"
)

// Proxies are processes of this binary.
func TestMain(m *testing.M) {
	if asChild() {
		return
	}
	os.Exit(m.Run())
}

// The scenario at its smallest: every part of it works, and what must be so however slow the machine is.
func TestACrowdIsMeasured(t *testing.T) {
	b := &bench{counts: []int{2}, plan: &crowdPlan{
		idle: 200 * time.Millisecond, load: 200 * time.Millisecond, deadline: time.Minute, rate: 100,
		patience: 5 * time.Second,
	}}
	one := b.run(choose("crowd", "")[0])
	shown := map[string]map[string]float64{}
	for _, r := range one.Rows {
		if len(r.samples) != 1 || r.n != 2 {
			t.Errorf("%s: got %d samples of %d clients, want one of two", r.lock, len(r.samples), r.n)
		}
		if r.samples[0].example != nil {
			t.Error(r.samples[0].example)
		}
		shown[r.lock] = r.figures
	}
	for _, of := range []struct {
		what, figure string
		least, most  float64
	}{
		{"redlock", orphans, 0, 0},
		{"redlock", failed, 0, 0},
		{allOpen, served, 2, 2},
		{allOpen, took, 1e-9, 1e9},
		{allOpen, accepted, 1, 1e9},
		{allRestart, served, 2, 2},
		{allRestart, took, 1e-9, 1e9},
		{allRestart, accepted, 1, 1e9},
		{nobody, connections, 0, 0},
		{atRest, connections, 3, 3},        // two clients and the outsider
		{atRest, goroutinesOfEach, 5, 1e9}, // one for each connection
		{allCycle, events, 1e-9, 1e9},
		{masterReturns, "calls", 1, 1e9},
		{oneName, served, 2, 2},
		{oneName, "overlaps", 0, 0},
		{oneName, failures, 0, 0},
	} {
		if got, ok := shown[of.what][of.figure]; !ok || got < of.least || got > of.most {
			t.Errorf("%s: %s: got %v (%t), want %v to %v", of.what, of.figure, got, ok, of.least, of.most)
		}
	}
	// All that the page shows is there.
	r := results{crowdScenario: one}
	for _, name := range []string{"machine", "clients", "waits", "costs", "limits"} {
		if text := r.part(name); text == "" || strings.Contains(text, "|  |") {
			t.Errorf("%s: a figure is missing:\n%s", name, text)
		}
	}
}

// Costs are those of the largest crowd, less what its clients cost at rest, and at rest less an empty master's.
func TestWhatAThousandCost(t *testing.T) {
	one := &outcome{}
	add := func(n int, state string, master, memory, connected, happened float64) {
		one.Rows = append(one.Rows, &row{n: n, lock: state, figures: map[string]float64{
			masterShare: master, usedMemory: memory, connections: connected, events: happened,
		}})
	}
	add(1, atRest, 99, 0, 0, 0)
	add(1, allCycle, 109, 1, 0, 1000) // the large one does not keep this pace
	add(500, nobody, 1, 100, 0, 0)
	add(500, atRest, 2, 200, 500, 0)
	add(500, allHold, 5, 200, 500, 0)
	add(500, allCycle, 4, 400, 500, 200)
	got := map[string]map[string]float64{}
	for _, p := range (results{crowdScenario: one}).perThousand() {
		got[p.What] = p.cost
	}
	for what, want := range map[string][3]float64{ // of the master, memory, connections
		"clients at rest": {2, 200, 1000},
		"holds, TTL 10 s": {6, 0, 0},
		"cycles/s":        {10, 1000, 0}, // of the small one; the memory is its client's
	} {
		if c := got[what]; [3]float64{c[masterShare], c[usedMemory], c[connections]} != want {
			t.Errorf("%s: got %v, want %v", what, c, want)
		}
	}
}

func TestHalfACore(t *testing.T) {
	for share, want := range map[float64]string{50000 / 7.9: "7.00", 50000 / 99.5: "99.0", 1: "50,000", 0: ""} {
		cases.Equals(t, perThousand{cost: map[string]float64{masterShare: share}}.HalfACore(), want, "%v", share)
	}
}
