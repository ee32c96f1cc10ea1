//go:build !race

package redlock

import (
	"context"
	"fmt"
	"math"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/redlock/internal/budget"
	"github.com/quorumlock/redlock/internal/protocol"
	"github.com/quorumlock/redlock/internal/sim"
)

// The budgets of what runs: see testdata/budgets.txt. Those of the building are in docs/budgets_test.go. They are not
// built with the race detector, which makes pools drop items at random. The other counts would be the same with it.

func judge(t *testing.T, section string, values map[string]float64) {
	t.Helper()
	budget.Judge(t, "testdata/budgets.txt", section, budget.Told, values)
}

// traffic is what clients send and get.
type traffic struct {
	dials, made, in, out, commands atomic.Int64

	processor chan struct{} // has a place for one; nil: the process is as fast as virtual time makes it
	turn      time.Duration // for how long each read and each write needs the processor
}

// work waits for the processor, and uses it. Reads that are blocked do not have it.
func (m *traffic) work() {
	if m.processor != nil {
		m.processor <- struct{}{}
		time.Sleep(m.turn)
		<-m.processor
	}
}

// meter counts the traffic of a client, whose Lockers need the option. It counts for one client of a fleet at a time.
func (fl *fleet) meter(client string) (*traffic, Option) {
	m := &traffic{}
	for _, n := range fl.nodes {
		n.Observe(func(c sim.Command) {
			if c.Client == client {
				m.commands.Add(1)
			}
		})
	}
	dial := fl.net.Dialer(client)
	return m, dialing(func(ctx context.Context, network, address string) (net.Conn, error) {
		m.dials.Add(1)
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		m.made.Add(1)
		return metered{conn, m}, nil
	})
}

type metered struct {
	net.Conn
	traffic *traffic
}

func (m metered) Read(b []byte) (int, error) {
	n, err := m.Conn.Read(b)
	m.traffic.work()
	m.traffic.in.Add(int64(n))
	return n, err
}

func (m metered) Write(b []byte) (int, error) {
	m.traffic.work()
	m.traffic.out.Add(int64(len(b)))
	return m.Conn.Write(b)
}

// several opens Lockers at one moment.
func (fl *fleet) several(n int, client string, opts ...Option) []*Locker {
	lockers := make([]*Locker, n)
	together(n, func(i int) { lockers[i] = fl.locker(client, opts...) })
	return lockers
}

// connected returns how many connections the Lockers have.
func connected(lockers []*Locker) (n int) {
	for _, l := range lockers {
		for _, node := range l.nodes {
			if up, _ := node.conn.State(); up {
				n++
			}
		}
	}
	return n
}

// memory is what the library and this test have allocated, and what of that is in use.
type memory struct{ objects, inUse, timers float64 }

// allocations reads the memory profile. It leaves out what the modelled masters and their network have allocated, which
// are in this process, too. An object of less than 16 bytes counts only if it needs new memory.
func allocations() (m memory) {
	for range 2 { // what was allocated before the last garbage collection but one is all in the profile
		runtime.GC()
	}
	n, _ := runtime.MemProfile(nil, true)
	records := make([]runtime.MemProfileRecord, n+n/4+100)
	n, ok := runtime.MemProfile(records, true)
	if !ok {
		panic("the memory profile has grown by a quarter meanwhile")
	}
	for _, r := range records[:n] {
		ours, timer := true, false
		frames := runtime.CallersFrames(r.Stack())
		for more := true; more && ours; {
			var frame runtime.Frame
			frame, more = frames.Next()
			ours = !strings.Contains(frame.Function, "/internal/sim.") && !strings.Contains(frame.Function, "/gopher-lua")
			timer = timer || frame.Function == "time.newTimer"
		}
		if !ours {
			continue
		}
		m.objects += float64(r.AllocObjects)
		m.inUse += float64(r.InUseBytes())
		if timer {
			m.timers += float64(r.InUseObjects())
		}
	}
	return m
}

// profiled has the memory profile record all that f allocates, and returns by how much it has grown.
func profiled(f func()) memory {
	before := allocations()
	func() {
		defer func(rate int) { runtime.MemProfileRate = rate }(runtime.MemProfileRate)
		runtime.MemProfileRate = 1
		f()
	}()
	after := allocations()
	return memory{after.objects - before.objects, after.inUse - before.inUse, after.timers - before.timers}
}

// opening is what one connection costs when a Locker is opened, and what scripts read for it until that is closed.
type opening struct{ commands, sent, received, allocations, scripts float64 }

// opening opens Lockers one after another. They are not the first: that one writes what the others find.
func (fl *fleet) opening() opening {
	const lockers = 4
	m, option := fl.meter("new")
	label := WithOwnerLabel("budgets") // by default it contains the host's name
	fl.locker("first", label)
	settleNetwork()
	scripts := fl.scriptValues()
	var opened []*Locker
	cost := profiled(func() {
		for range lockers {
			opened = append(opened, fl.locker("new", option, label))
		}
		settleNetwork()
	})
	each := float64(lockers * len(fl.nodes))
	o := opening{
		commands: float64(m.commands.Load()) / each,
		sent:     float64(m.out.Load()) / each, received: float64(m.in.Load()) / each,
		allocations: cost.objects / each,
	}
	for _, l := range opened {
		_ = l.Close()
	}
	settleNetwork()
	o.scripts = float64(fl.scriptValues()-scripts) / each
	return o
}

// scriptValues returns how many values scripts have read on all nodes.
func (fl *fleet) scriptValues() (n int64) {
	for _, node := range fl.nodes {
		n += node.ScriptValues()
	}
	return n
}

// listsKnown returns how many different lists the first node knows. Its own id is in the same set.
func (fl *fleet) listsKnown() float64 {
	n, _ := fl.nodes[0].Do("ZCOUNT", defaults().prefix+ownNames+"lists", 1, "+inf").(int64)
	return float64(n)
}

// clientsKnown returns how many registered clients a new client finds on the first node.
func (fl *fleet) clientsKnown() (n int) {
	for _, same := range fl.locker("doctor").Status(fl.t.Context())[0].Clients {
		n += same.Clients
	}
	return n
}

// foreign has the nodes know so many lists of other clients, which do not conflict: their nodes had other ids, or they
// replace one of them.
func (fl *fleet) foreign(texts int) {
	for i := range texts {
		var list []string
		for at, n := range fl.nodes {
			list = append(list, fmt.Sprintf("%06x%06x@%s", i, at, n.Addr()))
		}
		text := strings.Join(list, " ")
		if i%2 == 1 {
			list[0] = fmt.Sprintf("%012x@m%d:6379", i, i)
			text += "|" + strings.Join(list, " ")
		}
		for _, n := range fl.nodes {
			n.Do("ZADD", defaults().prefix+ownNames+"lists", n.Now().UnixMilli(), text)
		}
	}
}

// crowd has clients register that do not take leave: the nodes count them for a minute.
func (fl *fleet) crowd(clients int) {
	const each = 50
	for range clients / each {
		lockers := fl.several(each, "crowd")
		settleNetwork()
		fl.net.Cut(sim.Link{Client: "crowd"})
		together(len(lockers), func(i int) { _ = lockers[i].Close() })
	}
}

func TestBudgetsOfStart(t *testing.T) {
	got := map[string]float64{}
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		const lockers = 200
		m, option := fl.meter("a")
		all := fl.several(lockers, "a", option)
		settleNetwork()
		wanted := lockers * len(fl.nodes)
		missing := wanted - connected(all)
		got["dials per connection, 200 Lockers at one moment"] = float64(m.dials.Load()) / float64(wanted)
		got["commands per connection then"] = float64(m.commands.Load()) / float64(wanted)
		got["lists that a node knows then"] = fl.listsKnown()

		fl.nodes.crash(false)
		time.Sleep(3 * time.Second)
		m.made.Store(0)
		m.commands.Store(0)
		fl.nodes.restart()
		time.Sleep(4 * time.Second) // before the first probes
		synctest.Wait()
		missing += wanted - connected(all)
		got["connections made per connection, all masters restarted empty"] = float64(m.made.Load()) / float64(wanted)
		got["commands per connection after that"] = float64(m.commands.Load()) / float64(wanted)
		got["connections that are missing then, or after that"] = float64(missing)
	})
	var plain opening
	for _, c := range []struct {
		name             string // "": the rows of the others are how many times as much they are
		foreign, clients int
	}{
		{"", 0, 0},
		{"100 foreign lists", 100, 0},
		{"1,000 registered clients", 0, 1000},
	} {
		bubble(t, 5, func(t *testing.T, fl *fleet) {
			fl.crowd(c.clients)
			fl.foreign(c.foreign)
			o, by, end := fl.opening(), plain, ", times with "+c.name
			if c.name == "" {
				plain, by, end = o, opening{1, 1, 1, 1, 1}, ""
			}
			got["commands per handshake"+end] = o.commands / by.commands
			got["bytes sent per handshake"+end] = o.sent / by.sent
			got["bytes received per handshake"+end] = o.received / by.received
			got["allocations per handshake"+end] = o.allocations / by.allocations
			got["values that scripts read per connection"+end] = o.scripts / by.scripts
			if lists, clients := fl.listsKnown(), fl.clientsKnown(); int(lists) < c.foreign || clients < c.clients {
				t.Errorf("a node knows %v lists and %d clients: this proves nothing", lists, clients)
			}
		})
	}
	judge(t, "start", got)
}

// A process that is short of processor time comes late to everything. What it gives up for that is done again, which
// makes it later still: too many clients that start at one moment would never be ready.
func TestBudgetsOfALateStart(t *testing.T) {
	got := map[string]float64{}
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		const lockers = 200
		m, option := fl.meter("a")
		m.processor, m.turn = make(chan struct{}, 1), time.Millisecond
		all := fl.several(lockers, "a", option)
		wanted := lockers * len(fl.nodes)
		// settled waits until all are connected, or will not be.
		settled := func() {
			for began := time.Now(); connected(all) < wanted && time.Since(began) < time.Minute; {
				time.Sleep(100 * time.Millisecond)
			}
		}
		settled()
		missing := wanted - connected(all)
		got["dials per connection, 200 Lockers at one moment"] = float64(m.dials.Load()) / float64(wanted)
		for _, n := range fl.nodes {
			n.Crash(false)
			n.Restart()
		}
		m.made.Store(0)
		for connected(all) == wanted {
			time.Sleep(time.Millisecond)
		}
		settled()
		got["connections made per connection, all masters restarted empty"] = float64(m.made.Load()) / float64(wanted)
		got["connections that are missing then, or after that"] = float64(missing + wanted - connected(all))
	})
	judge(t, "late", got)
}

func TestBudgetsAtRest(t *testing.T) {
	got := map[string]float64{}
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		const lockers = 20
		warm := fl.several(lockers, "first") // what a process needs once is no part of what a client needs
		time.Sleep(time.Minute)
		for _, l := range warm {
			_ = l.Close()
		}
		settleNetwork()
		goroutines := runtime.NumGoroutine() - fl.net.Open(sim.Link{})
		m, option := fl.meter("a")
		memory := profiled(func() {
			fl.several(lockers, "a", option)
			time.Sleep(time.Minute)
			synctest.Wait()
		})
		goroutines = runtime.NumGoroutine() - fl.net.Open(sim.Link{}) - goroutines
		m.commands.Store(0)
		time.Sleep(10 * time.Minute)
		commands := float64(m.commands.Load()) / float64(len(fl.nodes))
		got["commands a node gets from one client in ten minutes"] = commands / lockers
		got["goroutines of one client"] = float64(goroutines) / lockers
		got["timers of one client"] = memory.timers / lockers
		got["KiB of one client's heap"] = memory.inUse / 1024 / lockers
	})
	judge(t, "rest", got)
}

func TestBudgetsOfACycle(t *testing.T) {
	got := map[string]float64{}
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		settleNetwork()
		p := plan{op: "lock", name: "job", key: "job", opts: l.opts}
		// The masters are in this process, too, so this is a cycle without them.
		cycle := func() {
			a := l.newAttempt(&p, 0)
			b := ballot{round: a.round(p.acquiring(queueUp)), start: a.start}
			a.expectGrants(b.round)
			h := l.heldBy(a, &b, a.granted(&b), queueUp)
			_ = l.handOut(h.firstHandle(t.Context(), nil))
			h.mu.Lock()
			r, ended := a.round(protocol.Release), h.tenure
			h.becomeUnlocked()
			h.tenure = nil
			h.mu.Unlock()
			r.send(l.nodes, a.asked, time.Now())
			r.Done()
			ended.recycle()
		}
		collectWhenTold(t) // a garbage collection empties the pools
		// The least of some turns: what else the process allocates comes on top, such as what a goroutine does not find in
		// the pools when it goes on with another processor.
		const turns, cycles = 6, 1000
		got["allocations"], got["bytes"] = math.Inf(1), math.Inf(1)
		for range turns {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range cycles {
				cycle()
			}
			runtime.ReadMemStats(&after)
			got["allocations"] = min(got["allocations"], float64(after.Mallocs-before.Mallocs)/cycles)
			got["bytes"] = min(got["bytes"], float64(after.TotalAlloc-before.TotalAlloc)/cycles)
		}
	})
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // else it is chance which requests the first batch has
		l := fl.locker("a")
		settleNetwork()
		var calls, raises atomic.Int64
		for _, n := range fl.nodes {
			n.Observe(func(c sim.Command) {
				switch {
				case slices.Contains(c.Args, protocol.Raise.Script.SHA):
					raises.Add(1)
				case c.Args[0] == "evalsha" || c.Args[0] == "eval":
					calls.Add(1)
				}
			})
		}
		const names, rounds = 64, 20
		for range rounds {
			together(names, func(i int) { succeeds(t, must(l.Lock(t.Context(), fmt.Sprint(i)))(t).Unlock()) })
			settleNetwork()
		}
		each := float64(calls.Load()) / float64(len(fl.nodes))
		got["script calls a node, 64 goroutines that lock and unlock 64 names"] = each / rounds
		got["second rounds of 1,280 acquisitions"] = float64(raises.Load())
	})
	judge(t, "cycle", got)
}

func TestBudgetsOfWaiting(t *testing.T) {
	got := map[string]float64{}
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		const contenders, turns = 128, 6
		lockers := fl.several(contenders, "a")
		var requests, taken, begun, ended atomic.Int64
		ofLocks := map[string]bool{} // and not what a client does once a second, or once
		for _, script := range protocol.Scripts() {
			ofLocks[script.SHA] = true
		}
		for _, n := range fl.nodes {
			n.Observe(func(c sim.Command) {
				if len(c.Args) > 1 && ofLocks[c.Args[1]] {
					requests.Add(1)
				}
			})
		}
		together(len(lockers), func(i int) {
			for range turns {
				k := must(lockers[i].Lock(t.Context(), "job"))(t)
				switch taken.Add(1) {
				case 2 * contenders: // all have been in the queue for long
					begun.Store(requests.Load())
				case (turns - 1) * contenders: // and all contend still
					ended.Store(requests.Load())
				}
				time.Sleep(time.Millisecond)
				succeeds(t, k.Unlock())
			}
		})
		counted := float64(ended.Load()-begun.Load()) / float64(len(fl.nodes))
		got["requests a node per turn of 128 contenders"] = counted / ((turns - 3) * contenders)
	})
	judge(t, "waiting", got)
}
