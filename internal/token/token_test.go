package token

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/cases"
)

func TestMedian(t *testing.T) {
	off := func(values ...int64) (o []offset) {
		for _, v := range values {
			o = append(o, offset{known: v != -1, offset: v})
		}
		return o
	}
	for _, c := range []struct {
		offsets []offset
		want    int64
	}{
		{off(7), 7},
		{off(1, 9), 1},
		{off(5, 1, 9), 5},
		{off(5, 1e12, 6), 6},
		{off(5, -1e12, 6), 5},
		{off(-1, 4, -1), 4},
		{off(1, 2, 3, 4, 5), 3},
	} {
		cases.Equals(t, median(c.offsets), c.want, "%v", c.offsets)
	}
}

const (
	second = int64(1_000_000)
	wall   = int64(1_800_000_000) * second // what the wall clock shows when the tests begin
)

func TestProposalsGrowWhateverTheClocksDo(t *testing.T) {
	c := New(3, 2, wall, 0)
	last := int64(0)
	propose := func(now int64, why string) {
		got := c.Propose(now)
		if got <= last {
			t.Errorf("%s: got %d after %d", why, got, last)
		}
		if got >= 1<<53 || got < 1e15 {
			t.Errorf("%s: %d has not 16 digits", why, got)
		}
		c.Observe(got)
		last = got
	}
	propose(0, "at first")
	propose(0, "at the same moment")
	c.Measured(0, wall+30*second, 0, 0)
	propose(1000, "one node's clock is 30 s ahead and the only one known")
	for node := range 3 {
		c.Measured(node, wall, 0, 0)
	}
	propose(2000, "set back by 30 s")
	c.Observe(last + 500_000)
	last += 500_000
	propose(3000, "a larger one was seen")
	c.Observe(1)
	propose(4000, "an old one was seen")
	for node := range 3 {
		c.Dropped(node, last+40*second)
	}
	last += 40 * second
	propose(5000, "the nodes have dropped a larger one")
	for node := range 3 {
		c.Dropped(node, Max-2)
	}
	last = Max - 2
	propose(6000, "the last one")
	cases.Equals(t, c.Propose(7000), int64(Max), "no larger one is proposed")
}

// Floors move the tokens as far as so many nodes bear them out as decide. A token may be less than one second ahead of
// the time, or of such a floor.
func TestFloors(t *testing.T) {
	const far, later = wall + 3600*second, wall + 3000*second
	for _, c := range []struct {
		name    string
		floors  []int64 // by node; 0: none, or unknown
		propose int64
		limit   int64 // the least token that is too far ahead
	}{
		{"none", []int64{0, 0, 0, 0, 0}, wall, wall + second},
		{"as ever", []int64{wall - 1, wall - 9, wall - 2, wall, wall - 1}, wall, wall + second},
		{"one lies", []int64{far, wall - 1, wall - 1, wall - 1, wall - 1}, wall, wall + second},
		{"one lies, and is the first to be known", []int64{Max, 0, 0, 0, 0}, wall, wall + second},
		{"two of five lie, one is away", []int64{far, far, wall - 1, wall - 1, 0}, wall, wall + second},
		{"clocks were set back", []int64{far, far, far, far, far}, far + 1, far + second},
		{"clocks were set back, two nodes were emptied", []int64{far, 0, far, 0, far}, far + 1, far + second},
		{"clocks were set back, one lies", []int64{Max, far, later, far, far}, far + 1, far + second},
		{"clocks were set back, various floors", []int64{far, 0, later, later, 0}, later + 1, later + second},
		{"two of three", []int64{far, far, 0}, far + 1, far + second},
		{"one of three", []int64{0, far, 0}, wall, wall + second},
		{"three of four", []int64{far, far, later, 0}, later + 1, later + second},
		{"the only one", []int64{far}, far + 1, far + second},
		{"the end", []int64{Max, Max, Max}, wall, Max},
		{"almost the end", []int64{Max - 2, Max - 2, Max - 2}, Max - 1, Max},
	} {
		clock := New(len(c.floors), len(c.floors)/2+1, wall, 0)
		for node, floor := range c.floors {
			clock.Dropped(node, Max)
			clock.Dropped(node, floor) // what it said last counts
		}
		cases.Equals(t, clock.Propose(0), c.propose, "%s: proposed", c.name)
		for token, want := range map[int64]bool{c.limit - 1: false, c.limit: true, Max: true} {
			cases.Equals(t, clock.TooFarAhead(token, 0), want, "%s: %d is too far ahead", c.name, token-wall)
		}
		for node, floor := range c.floors {
			for token, want := range map[int64]int64{floor - 1: floor, floor: floor, floor + 1: 0} {
				cases.Equals(t, clock.Below(node, token), want, "%s: node %d, %d", c.name, node, token-wall)
			}
		}
	}
}

// Whatever a majority of honest nodes has dropped and the others claim: a proposal is above no more than what an honest
// node has dropped, and enough nodes may vote for it.
func TestFloorsThatLie(t *testing.T) {
	levels := []int64{0, wall - second, wall + second/2, wall + 3600*second, Max}
	for nodes, all := range map[int]int{3: 125, 5: 3125} {
		least, floors := nodes/2+1, make([]int64, nodes)
		for n := range all {
			clock, honest := New(nodes, least, wall, 0), int64(0)
			for node, rest := 0, n; node < nodes; node, rest = node+1, rest/len(levels) {
				floors[node] = levels[rest%len(levels)]
				clock.Dropped(node, floors[node])
				if node < least {
					honest = max(honest, floors[node])
				}
			}
			got, votes := clock.Propose(0), 0
			for node := range floors {
				if clock.Below(node, got) == 0 {
					votes++
				}
			}
			if got > max(wall, honest+1) || got > Max || votes < least && clock.floor.Load() < Max {
				t.Fatalf("%v, the first %d honest: proposed %d, and %d may vote for it", floors, least, got, votes)
			}
		}
	}
}

// The best reading stays until another one contradicts it.
func TestTheBestReadingStays(t *testing.T) {
	for _, c := range []struct {
		name         string
		micros, trip int64 // of the second reading, a second later than the first one, which took 100 µs
		want         int64 // how far the time is ahead of wall then
	}{
		{"a slower one that fits", wall + second + 900, 1000, 0},
		{"a quicker one", wall + second + 20, 10, 15},
		{"a slower one that shows another time", wall + 5*second, 1000, 4*second - 500},
	} {
		clock := New(1, 1, 0, 0)
		clock.Measured(0, wall+50, 0, 100)
		clock.Measured(0, c.micros, second, second+c.trip)
		cases.Equals(t, clock.Time(0)-wall, c.want, "%s", c.name)
	}
}

// A clock whose readings were all late is read again, three times at most.
func TestPoorReadings(t *testing.T) {
	clock := New(3, 2, wall, 0)
	clock.Measured(0, wall, 0, 20_000)
	clock.Measured(1, wall, 0, 1000)
	for i := range maxRereads {
		if got := clock.Poor(); len(got) != 1 || got[0] != 0 {
			t.Errorf("time %d: got %v, want node 0", i, got)
		}
		clock.Measured(0, wall+second, second, second+20_000)
	}
	if got := clock.Poor(); got != nil {
		t.Errorf("got %v after %d times, want none", got, maxRereads)
	}
}

func TestOffsets(t *testing.T) {
	const unread = math.MinInt64
	for _, c := range []struct {
		name  string
		apart time.Duration
		ahead []int64 // of wall, in s, by node
		wrong []int
	}{
		{"all agree", 0, []int64{0, 0, 0}, nil},
		{"one is ahead", 0, []int64{0, 2, 0}, []int{1}},
		{"one is behind", 0, []int64{0, 0, -2}, []int{2}},
		{"just one second", 0, []int64{0, 1, 0}, nil},
		{"two of three known: nobody can say", 0, []int64{0, 9, unread}, nil},
		{"two of three known, and tokens", 5 * time.Second, []int64{0, 9, unread}, []int{1}},
		{"two of three known, not that far apart", 10 * time.Second, []int64{0, 9, unread}, nil},
		{"three of seven are no majority", 5 * time.Second, []int64{0, 2, 0, unread, unread, unread, unread}, nil},
		{"two of five", 0, []int64{-30, 0, 0, 40, 0}, []int{0, 3}},
	} {
		clock := New(len(c.ahead), len(c.ahead)/2+1, wall, c.apart)
		for node, ahead := range c.ahead {
			if ahead != unread {
				clock.Measured(node, wall+ahead*second, 0, 0)
			}
		}
		var wrong []int
		for node, o := range clock.Offsets() {
			if o.Wrong {
				wrong = append(wrong, node)
			}
		}
		if len(wrong) != len(c.wrong) || len(wrong) > 0 && wrong[0] != c.wrong[0] {
			t.Errorf("%s: got %v, want %v", c.name, wrong, c.wrong)
		}
	}
}

// A clock has jumped if it goes forward by more than the reading's error, and the others do not. If two clocks
// disagree, no third one shows which is right, so no jump is reported.
func TestJumps(t *testing.T) {
	const hour, ms = time.Hour, time.Millisecond
	// read is a reading of a node's clock, which is ahead by off, over a round trip of trip.
	type read struct {
		node      int
		off, trip time.Duration
	}
	type jumps map[int]time.Duration // in all, by node
	for _, c := range []struct {
		name  string
		nodes int
		reads []read
		want  jumps
	}{
		{"as before", 3, []read{{0, 0, 0}, {1, 0, 0}, {2, 0, 0}}, nil},
		{"one is set forward", 3, []read{{0, hour, 0}, {1, 0, 0}, {2, 0, 0}, {0, hour, 0}}, jumps{0: hour}},
		{
			"one is set forward, and another one later", 3,
			[]read{{0, hour, 0}, {1, 0, 0}, {0, 0, 0}, {2, 2000 * ms, 0}, {1, 0, 0}},
			jumps{0: hour, 2: 2000 * ms},
		},
		{
			"one is set forward twice", 3,
			[]read{{0, hour, 0}, {1, 0, 0}, {0, 2 * hour, 0}, {1, 0, 0}},
			jumps{0: 2 * hour},
		},
		{"one is set back", 3, []read{{0, -hour, 0}, {1, 0, 0}, {2, 0, 0}}, nil},
		{
			"one is set back and right again", 3,
			[]read{{0, -hour, 0}, {1, 0, 0}, {2, 0, 0}, {0, 0, 0}, {1, 0, 0}},
			jumps{0: hour},
		},
		{"by less than a second", 3, []read{{0, 900 * ms, 0}, {1, 0, 0}, {2, 0, 0}}, nil},
		{"by less than the reading is good for", 3, []read{{0, 3000 * ms, 5000 * ms}, {1, 0, 0}, {2, 0, 0}}, nil},
		{"we were paused", 3, []read{{0, hour, 0}, {1, hour, 0}, {2, hour, 0}, {0, hour, 0}}, nil},
		{
			"we were paused, the last one first", 3,
			[]read{{2, hour, 0}, {2, hour, 0}, {1, hour, 0}, {0, hour, 0}, {2, hour, 0}},
			nil,
		},
		{"no clock to compare with yet", 3, []read{{0, hour, 0}, {0, hour, 0}}, nil},
		{"one of two", 2, []read{{0, hour, 0}, {1, 0, 0}, {0, hour, 0}}, nil},
	} {
		clock, now := New(c.nodes, c.nodes/2+1, wall, 0), int64(0)
		got := jumps{}
		look := func(r read) {
			now += second
			asked := now
			now += r.trip.Microseconds()
			clock.Measured(r.node, wall+now+(r.off-r.trip/2).Microseconds(), asked, now)
			by, _ := clock.Jumps()
			for node, d := range by {
				if d > 0 {
					got[node] += d
				}
			}
		}
		for node := range c.nodes {
			look(read{node: node})
		}
		for _, r := range c.reads {
			look(r)
		}
		for node := range c.nodes {
			if off := got[node] - c.want[node]; off.Abs() > time.Millisecond {
				t.Errorf("%s: node %d has jumped by %v, want %v", c.name, node, got[node], c.want[node])
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"", "0", "1766617310017481", "1.766617310017481e+15", "NaN", "-1", "Inf", "9007199254740992", "1.5", "1e999",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		token, ok := Parse(text)
		if token < 0 || token >= 1<<53 || !ok && token != 0 {
			t.Errorf("%q: got %d, %v", text, token, ok)
		}
		if ok {
			if again, same := Parse(strconv.FormatInt(token, 10)); !same || again != token {
				t.Errorf("%q: %d is read as %d", text, token, again)
			}
		}
	})
}
