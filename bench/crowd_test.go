package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/redisserver"
)

// Proxies and small crowds are processes of this binary.
func TestMain(m *testing.M) {
	if child, err := asChild(); child {
		fatal(err)
		return
	}
	os.Exit(m.Run())
}

// The scenario at its smallest: every part of it works, and what must be so however slow the machine is.
func TestACrowdIsMeasured(t *testing.T) {
	sc, err := choose("crowd", "")
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{plan: &crowdPlan{
		idle: 200 * time.Millisecond, load: 200 * time.Millisecond, deadline: time.Minute, rate: 100, starts: 1, together: 3,
		patience: 5 * time.Second,
	}}
	r, err := b.run(sc[0], []int{2}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != 1 || len(r.Rows[0].Samples) != 1 {
		t.Fatalf("got %+v, want one sample", r.Rows)
	}
	s := r.Rows[0].Samples[0]
	c := s.Crowd
	if s.Orphans != 0 || s.Errors != 0 {
		t.Errorf("%d keys were left; %d errors: %s", s.Orphans, s.Errors, s.Example)
	}
	for name, a := range map[string]*arrival{"open": c.Open, "processes": c.Processes, "restart": c.Restart} {
		if a == nil || a.Clients != 2 || a.Served != 2 || a.Took <= 0 || a.Guarded != 0 {
			t.Errorf("%s: got %+v, want a lock for both clients, and no restart guard", name, a)
		} else if a.Made < 1 {
			t.Errorf("%s: got %v connections made for each that the clients have", name, a.Made)
		}
	}
	if c.Goroutines < 5 {
		t.Errorf("%v goroutines a client, want one for each connection at least", c.Goroutines)
	}
	if c.Empty.Connections != 0 || c.Rest.Connections != 3 {
		t.Errorf("%v connections of an empty master, and %v at rest; want 0, and 3: two clients and the outsider",
			c.Empty.Connections, c.Rest.Connections)
	}
	if c.Cycles.Events == 0 {
		t.Error("no cycles")
	}
	for i, hot := range c.Hot {
		if hot.Served != 2 || hot.Overlaps != 0 || hot.Failed != 0 {
			t.Errorf("one name, TTL %s: %+v, want both served, one after the other", crowdTTLs[i], hot)
		}
	}
	if c.Starts.Clients != 3 || c.Starts.Failed != 0 || c.Late.Failed != 0 || c.Starts.Worst == 0 || c.Late.Worst == 0 {
		t.Errorf("newcomers: %+v, %+v", c.Starts, c.Late)
	}
}

// Chosen parts are measured alone, and do not get into a page as if they were all.
func TestPartsOfACrowdAreMeasuredAlone(t *testing.T) {
	sc, err := choose("crowd", "")
	if err != nil {
		t.Fatal(err)
	}
	plan := crowdPlan{deadline: time.Minute, patience: 5 * time.Second, parts: "processes"}
	b := &bench{plan: &plan}
	r, err := b.run(sc[0], []int{11}, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := r.Rows[0].Samples[0]
	if s.Errors != 0 || s.Orphans != 0 || s.Crowd.Open != nil || s.Crowd.Restart != nil {
		t.Errorf("got %+v, %+v; want the ten processes alone", s, *s.Crowd)
	}
	if a := s.Crowd.Processes; a == nil || a.Clients != 11 || a.Served != 11 {
		t.Errorf("got %+v, want a lock for each of eleven clients in ten processes", a)
	}
	_, err = (&report{Scenarios: []*result{r}}).updated("")
	if err == nil || !strings.Contains(err.Error(), plan.parts) {
		t.Errorf("a page: got %v, want an error that names the part", err)
	}
	plan.parts = "rest,restarts"
	if _, err := b.run(sc[0], []int{1}, 0); err == nil || !strings.Contains(err.Error(), `"restarts"`) {
		t.Errorf("a part that there is not: got %v, want an error that names it", err)
	}
}

// A master that died in one part is named by the next, which does not measure the four others.
func TestAPartOfACrowdNeedsAllMasters(t *testing.T) {
	servers, err := startServers(redisserver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{
		plan:    &crowdPlan{deadline: time.Minute, parts: "processes"},
		cluster: &cluster{servers: servers, nodes: addrs(servers)},
	}
	defer b.cluster.stop()
	if err := servers[3].Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := b.crowd(scenario{}, contestant{}, 1, 0)
	if s.Errors != 1 || !strings.Contains(s.Example, servers[3].Addr()) || s.Crowd.Processes != nil {
		t.Errorf("got %d errors: %q, and %+v; want one that names %s, and no figures (%v)",
			s.Errors, s.Example, s.Crowd.Processes, servers[3].Addr(), err)
	}
}

// The page shows what the last run has found.
func TestThePageShowsTheLastRun(t *testing.T) {
	r, err := load("../docs/benchmarks/results.json")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../docs/scale.md")
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.updated(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if got != string(text) {
		t.Error("docs/scale.md is behind docs/benchmarks/results.json: see docs/benchmarks.md for the command")
	}
	if n := strings.Count(got, "<!-- bench: end -->"); n < 4 {
		t.Errorf("the page has %d tables of the bench's", n)
	}
}

func TestAPageNamesATableThatNobodyKnows(t *testing.T) {
	crowds := &report{Scenarios: []*result{{Name: "crowd", Rows: []*row{{Samples: []sample{{Crowd: &crowd{}}}}}}}}
	if _, err := crowds.updated("<!-- bench: nothing -->\n<!-- bench: end -->"); err == nil {
		t.Error("want an error")
	}
	if _, err := (&report{}).updated(""); err == nil {
		t.Error("a report without a crowd: want an error")
	}
}

// Costs are those of the largest crowd, less what its clients cost at rest, and at rest less an empty master's.
func TestWhatAThousandCost(t *testing.T) {
	small := &row{Goroutines: 1, Samples: []sample{{Crowd: &crowd{
		Rest: cost{Master: 99}, Cycles: cost{Master: 109, Memory: 1, Events: 1000}, // the large one does not keep this pace
	}}}}
	large := &row{Goroutines: 500, Samples: []sample{{Crowd: &crowd{
		Empty:  cost{Master: 1, Memory: 100},
		Rest:   cost{Master: 2, Memory: 200, Connections: 500},
		Holds:  cost{Master: 5, Memory: 200, Connections: 500},
		Cycles: cost{Master: 4, Memory: 400, Connections: 500, Events: 200},
	}}}}
	got := map[string]cost{}
	for _, p := range (&result{Rows: []*row{small, large}}).perThousand() {
		got[p.what] = p.cost
	}
	for what, want := range map[string]cost{
		"clients at rest": {Master: 2, Memory: 200, Connections: 1000},
		"holds, TTL 10 s": {Master: 6},
		"cycles/s":        {Master: 10, Memory: 1000}, // of the small one; the memory is its client's
	} {
		if got[what] != want {
			t.Errorf("%s: got %+v, want %+v", what, got[what], want)
		}
	}
}

func TestRounded(t *testing.T) {
	for v, want := range map[float64]float64{7.9: 7, 99: 99, 123: 120, 45678: 45000} {
		if got := rounded(v); got != want {
			t.Errorf("rounded(%v) = %v, want %v", v, got, want)
		}
	}
}
