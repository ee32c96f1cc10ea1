package redlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock/finding"
	"github.com/quorumlock/redlock/internal/protocol"
	"github.com/quorumlock/redlock/internal/quorum"
	"github.com/quorumlock/redlock/internal/sim"
)

// As in internal/agreement.
const (
	correctAfter     = 500 * ms
	establishedAfter = 15 * time.Second
	confirmsWithin   = 45 * time.Second
)

// listFindings returns the findings about lists, by the nodes' answers of now.
func listFindings(t *testing.T, l *Locker) (all []finding.Finding) {
	t.Helper()
	for _, n := range l.Status(t.Context()) {
		for _, f := range n.Findings {
			if f.Code == "lists" {
				all = append(all, f)
			}
		}
	}
	return all
}

// findsNoLists fails the test if there are such findings. what says why there must not be any.
func findsNoLists(t *testing.T, l *Locker, what string) {
	t.Helper()
	if found := listFindings(t, l); found != nil {
		t.Errorf("%s, and found %+v", what, found)
	}
}

func TestAClientWithAnotherListIsRefused(t *testing.T) {
	c := changes[0]
	bubble(t, c.size(), func(t *testing.T, fl *fleet) {
		var log journal
		a := c.locker(fl, "old", "a", log.logging(slog.LevelWarn))
		k := must(a.Lock(t.Context(), "job"))(t)
		begun, written := time.Now(), fl.nodes[0].Calls("zadd")
		_, err := fl.open("b", c.new)
		equals(t, fl.nodes[0].Calls("zadd"), written, "registrations, as the client that is refused may have alarmed others")
		var conflict *ListConflictError
		if !errors.As(err, new(*ListConflictError)) || !errors.As(err, &conflict) || time.Since(begun) > time.Second {
			t.Fatalf("got %v after %s, want a ListConflictError at once", err, time.Since(begun))
		}
		want := "redlock: New: conflicting lists of nodes: other clients use n0:6379 n1:6379 n2:6379 n3:6379 n4:6379, " +
			"this one n0:6379 n1:6379 n2:6379 n3:6379 n5:6379 (as n0:6379 says): each could hold the lock without the other; " +
			"to change nodes, use WithNewNodes (docs/changing-nodes.md)"
		equals(t, err.Error(), want, "the error")
		// The client that works has not been disturbed, and a monitor tells of the list that would be refused.
		findsNoLists(t, a, "the working client")
		looks := must(fl.open("looks", c.new, onlyLooks))(t)
		const text = "n5:6379 is in this list alone; others use n4:6379: " +
			"a client with this list is refused as long as they do"
		found := listFindings(t, looks)
		if len(found) != 4 || found[0].Severity != finding.Unavailable || found[0].Text != text {
			t.Errorf("the monitor found %+v, want %q", found, text)
		}
		if seen := looks.Status(t.Context())[0].Clients; len(seen) != 1 || seen[0].Clients != 1 || !seen[0].Conflict {
			t.Errorf("the monitor counts %+v", seen)
		}
		// A client with both lists is welcome, and the next one with the new list alone only when a is gone.
		both := c.locker(fl, "both", "both")
		conflicts(t, errOf(fl.open("b", c.new)), "beside a and both")
		succeeds(t, k.Unlock())
		succeeds(t, a.Close())
		b := must(fl.open("b", c.new))(t)
		succeeds(t, must(b.Lock(t.Context(), "job"))(t).Unlock())
		succeeds(t, both.Close())
		succeeds(t, b.Close())
		expectLines(t, log.take(), map[string]int{})
	})
}

// A list that is refused only because of a client that has crashed is told apart from one that others use.
func TestTheOthersAreGone(t *testing.T) {
	c := changes[0]
	for _, ttl := range []time.Duration{10 * time.Second, 70 * time.Second} { // such a TTL is registered for 2 minutes
		bubble(t, c.size(), func(t *testing.T, fl *fleet) {
			a := must(fl.open("a", c.old, WithTTL(ttl)))(t)
			succeeds(t, must(a.Lock(t.Context(), "job"))(t).Unlock())
			looks := must(fl.open("looks", c.new, onlyLooks))(t)
			said := func(want string) {
				t.Helper()
				for _, f := range listFindings(t, looks) {
					if !strings.Contains(f.Text, want) || f.Severity != finding.Unavailable {
						t.Errorf("TTL %s: got %q, want %q", ttl, f.Text, want)
					}
				}
			}
			for range 20 {
				time.Sleep(7 * time.Second)
				said("; others use n4:6379")
			}
			equals(t, len(listFindings(t, looks)), 4, "TTL %s: findings of four nodes", ttl)
			fl.cutAll("a")
			time.Sleep(51 * time.Second)
			said("; others used n4:6379, over 50 s ago: ")
			time.Sleep(2 * time.Minute)
			findsNoLists(t, looks, "forgotten")
		})
	}
}

// A client that ended without Close counts for a minute, and so does one that was closed with a hold, or with a ticket
// that can be adopted.
func TestARegistrationEndsWithItsClient(t *testing.T) {
	c := changes[0]
	for _, end := range []string{"closed", "closed with a hold", "closed with a ticket", "crashed"} {
		bubble(t, c.size(), func(t *testing.T, fl *fleet) {
			a := c.locker(fl, "old", "a")
			if strings.Contains(end, "with") {
				k := must(a.Lock(t.Context(), "job"))(t)
				if end == "closed with a ticket" {
					must(k.Ticket())(t)
				}
			}
			if end == "crashed" {
				fl.cutAll("a")
			} else {
				succeeds(t, a.Close())
			}
			settleNetwork()
			b, err := fl.open("b", c.new)
			equals(t, err == nil, end == "closed", "%s: opened", end)
			if err != nil {
				time.Sleep(61 * time.Second)
				b = must(fl.open("b", c.new))(t)
			}
			succeeds(t, b.Close())
			time.Sleep(6 * time.Minute)
			for _, n := range fl.nodes[:4] {
				for _, key := range n.Keys() {
					if key == "redlock:lists" || strings.HasPrefix(key, "redlock:clients:") {
						t.Errorf("%s keeps %s of clients that are gone", n.Addr(), key)
					}
				}
			}
		})
	}
}

// A hold whose TTL is longer than a minute is protected from clients with a conflicting list until its end, also from
// the moment at which its client has crashed.
func TestARegistrationOutlivesLongHolds(t *testing.T) {
	const ttl = 5 * time.Minute
	c := changes[0]
	for what, options := range map[string]struct {
		all []Option
		one []LockOption
	}{
		"of all calls": {all: []Option{WithTTL(ttl)}},
		"of one call":  {one: []LockOption{WithTTL(ttl)}},
	} {
		bubble(t, c.size(), func(t *testing.T, fl *fleet) {
			time.Sleep(2 * ttl) // the nodes are older than the guard's period
			opts := append(options.all, withGuard(ttl), withRetention(2*ttl))
			a := c.locker(fl, "old", "a", opts...)
			time.Sleep(time.Minute)
			k := must(a.Lock(t.Context(), "job", options.one...))(t)
			if time.Sleep(time.Second); options.one == nil {
				time.Sleep(100 * time.Second)
			}
			fl.cutAll("a")
			var b *Locker
			var err error
			for b == nil && k.Err() == nil {
				time.Sleep(10 * time.Second)
				if b, err = fl.open("b", c.new, withGuard(ttl)); b == nil && !errors.As(err, new(*ListConflictError)) {
					t.Fatal(err)
				}
			}
			if b != nil && k.Err() == nil {
				_, err := b.TryLock(t.Context(), "job")
				t.Errorf("%s: a client with a conflicting list is accepted while the hold is valid, and TryLock says %v", what, err)
			}
			time.Sleep(8*time.Minute - ttl + ttl/3 + 10*time.Second) // the last extension may be a third of the TTL old
			must(fl.open("c", c.new, withGuard(ttl)))(t)
		})
	}
}

// A client that is refused after it got a hold stays registered until that has ended.
func TestARefusedClientWithAHoldStaysRegistered(t *testing.T) {
	c := changes[0]
	for range 3 { // in one of twelve, b waits for its own sake
		bubble(t, c.size(), func(t *testing.T, fl *fleet) {
			fl.cut("a", 0, 1)
			fl.cut("b", 2, 3)
			a, b := must(fl.open("a", c.old))(t), must(fl.open("b", c.new))(t)
			k := must(a.TryLock(t.Context(), "job"))(t)
			fl.mend("a", 0, 1)
			fl.mend("b", 2, 3)
			refused := func(l *Locker) bool {
				ctx := expiring(t, time.Second)
				return errors.As(l.Ready(ctx), new(*ListConflictError))
			}
			for range 40 { // b must not work before the hold of a has ended
				time.Sleep(5 * time.Second)
				if k.Err() != nil || !refused(b) {
					t.Fatalf("the hold: %v; b is refused: %t", k.Err(), refused(b))
				}
			}
			succeeds(t, k.Unlock())
			time.Sleep(time.Minute)
			if refused(a) == refused(b) {
				t.Errorf("refused: a %t, b %t; want one of them", refused(a), refused(b))
			}
		})
	}
}

// So it does if it is closed, also when a node answers while Close waits for another one that is slow.
func TestARefusedClientIsClosedWithAHold(t *testing.T) {
	c := changes[0]
	bubble(t, c.size(), func(t *testing.T, fl *fleet) {
		fl.cut("a", 0, 1)
		fl.cut("b", 2, 3)
		a := must(fl.open("a", c.old))(t)
		ticket := must(must(must(fl.open("b", c.new))(t).Lock(t.Context(), "handed"))(t).Ticket())(t)
		must(a.TryLock(t.Context(), "job"))(t)
		fl.mend("a", 0, 1)
		for begun := time.Now(); a.mayLock() == nil && time.Since(begun) < establishedAfter; time.Sleep(100 * ms) {
		}
		if a.mayLock() == nil {
			t.Fatal("it is not refused")
		}
		fl.net.SetDelay(sim.Link{Client: "a"}, sim.Up, sim.Delay{Min: 20 * ms, Max: 20 * ms})
		fl.net.Hold(link0("a", 4), sim.Both)
		a.undoOwner(protocol.Release, "other", a.peers.agreement.Label.Owner(1, true), "", time.Minute, quorum.Set(0).With(4))
		for i := range 4 {
			a.nodes[i].conn.CheckSoon()
		}
		time.Sleep(ms)
		succeeds(t, a.Close())
		for name, call := range everyCall(ticket) {
			fails(t, errOf(call(t.Context(), a)), ErrClosed, name)
		}
		fl.net.Release(link0("a", 4), sim.Both)
		settleNetwork()
		for _, n := range fl.nodes[2:5] {
			if n.Do("EXISTS", "job") != int64(1) || len(listsOn(n)) != 1 {
				t.Errorf("%s has lost the hold or the registration of a client that was closed with it", n.Addr())
			}
		}
	})
}

// A client that could not look when it was made is refused as soon as it can, and works when the others are gone.
func TestALateConflictIsNoticed(t *testing.T) {
	c := changes[0]
	bubble(t, c.size(), func(t *testing.T, fl *fleet) {
		a := c.locker(fl, "old", "a")
		fl.cutAll("b")
		var log journal
		b := c.locker(fl, "new", "b", log.logging(slog.LevelWarn))
		fl.mendAll("b")
		time.Sleep(3 * time.Second)
		if _, err := b.Lock(t.Context(), "job"); !errors.As(err, new(*ListConflictError)) ||
			!strings.HasPrefix(err.Error(), "redlock: lock job: conflicting lists of nodes: other clients use ") {
			t.Errorf("got %v, want a ListConflictError", err)
		}
		ctx := expiring(t, time.Second)
		conflicts(t, b.Ready(ctx), "ready")
		findsNoLists(t, a, "a client that is refused")
		succeeds(t, a.Close())
		within(t, 30*time.Second, "the return", func() { succeeds(t, b.Ready(t.Context())) })
		succeeds(t, must(b.Lock(t.Context(), "job"))(t).Unlock())
	})
}

// Two clients that did not see each other and then do both work on, and say so.
func TestWorkingClientsThatConflictSaySo(t *testing.T) {
	c := changes[0]
	bubble(t, c.size(), func(t *testing.T, fl *fleet) {
		fl.cut("a", 0, 1)
		fl.cut("b", 2, 3)
		var log journal
		a := c.locker(fl, "old", "a", log.logging(slog.LevelError))
		b := c.locker(fl, "new", "b")
		time.Sleep(2 * establishedAfter)
		fl.mendAll("a")
		fl.mendAll("b")
		time.Sleep(time.Minute)
		for _, l := range []*Locker{a, b} {
			succeeds(t, must(l.Lock(t.Context(), "job"))(t).Unlock())
			if found := listFindings(t, l); len(found) != 4 || found[0].Severity != finding.Unsafe {
				t.Errorf("found %+v", found)
			}
		}
		lines := log.take()
		if !slices.ContainsFunc(lines, func(s string) bool { return strings.Contains(s, "finding=lists") }) {
			t.Errorf("logged %q", lines)
		}
		succeeds(t, b.Close())
		time.Sleep(2 * time.Minute)
		findsNoLists(t, a, "b is gone")
	})
}

// A client that was cut off for so long that the nodes have forgotten it is a newcomer when it comes back.
func TestAClientThatWasAwayComesBackAsANewcomer(t *testing.T) {
	c := changes[0]
	for range 10 { // the nodes come back to it in any order
		bubble(t, c.size(), func(t *testing.T, fl *fleet) {
			a := c.locker(fl, "old", "a")
			succeeds(t, must(a.Lock(t.Context(), "job"))(t).Unlock())
			fl.cutAll("a")
			time.Sleep(2 * time.Minute)
			b := c.locker(fl, "new", "b")
			fl.mendAll("a")
			time.Sleep(5 * time.Second)
			conflicts(t, errOf(a.TryLock(t.Context(), "job")))
			succeeds(t, must(b.Lock(t.Context(), "job"))(t).Unlock())
		})
	}
}

// What one node says of other clients refuses nobody if others contradict it, or show that it does not matter.
func TestOneNodesWordAboutLists(t *testing.T) {
	for what, c := range map[string]struct {
		shared  int // so many nodes are in both lists
		clients []string
		down    []int
		used    time.Duration // for how long another client has had the newcomer's list
		refused bool
	}{
		"nobody has the list":             {shared: 1},
		"all other nodes deny it":         {shared: 4, clients: []string{"x"}},
		"too few nodes are there to deny": {shared: 4, clients: []string{"x"}, down: []int{3}, refused: true},
		"no other node can know":          {shared: 1, clients: []string{"x"}, refused: true},
		"others have the newcomer's":      {shared: 1, clients: []string{"x"}, used: 80 * time.Second},
		"others have had it for a moment": {shared: 1, clients: []string{"x"}, used: 70 * time.Second, refused: true},
	} {
		bubble(t, 5, func(t *testing.T, fl *fleet) {
			first := fl.locker("first") // the nodes have their identities from it
			var listed []string
			for i, n := range fl.nodes {
				if id := n.Do("ZRANGEBYSCORE", "redlock:lists", 0, 0).([]any)[0]; i < c.shared {
					listed = append(listed, fmt.Sprintf("%s@%s", id, n.Addr()))
				}
			}
			if time.Sleep(c.used); c.used == 0 {
				succeeds(t, first.Close())
			}
			for i := range 5 - c.shared {
				listed = append(listed, fmt.Sprintf("%d@elsewhere%d:6379", i, i))
			}
			for _, i := range c.down {
				fl.nodes[i].Crash(true)
			}
			forge(fl.nodes[0], strings.Join(listed, " "), c.clients...)
			l, err := New(fl.urls, dialing(fl.net.Dialer("b")))
			if (err != nil) != c.refused || err != nil && !errors.As(err, new(*ListConflictError)) {
				t.Fatalf("%s: got %v, refused: want %t", what, err, c.refused)
			}
			for range 12 {
				if err == nil {
					succeeds(t, must(l.Lock(t.Context(), "job"))(t).Unlock())
				}
				time.Sleep(5 * time.Second)
			}
			if err == nil {
				succeeds(t, l.Close())
			}
		})
	}
}

// A node that tells something else each time disturbs nobody who works, nobody who comes, and no other node.
func TestANodeThatInventsListsAndIdentities(t *testing.T) {
	invented := 0
	word := func(format string) string { invented++; return fmt.Sprintf(format, invented) }
	for what, invent := range map[string]func(mode string, sets int, own string, reply []any){
		"lists": func(mode string, sets int, own string, reply []any) {
			reply[1] = word("%040x")
			near := own[:strings.LastIndex(own, " ")] + word(" %012x@n9:6379")
			alone := "?@n0:6379" + word(" %012x@n9:6379 7@n8:6379")
			switch mode {
			case "read":
				reply[2] = []any{near, alone}
			case "count":
				counts := []any{}
				for range 2 * sets {
					counts = append(counts, int64(1<<62))
				}
				reply[2] = counts
			}
		},
		"identities": func(_ string, _ int, _ string, reply []any) { reply[0] = word("%012x") },
		"words":      func(_ string, _ int, _ string, reply []any) { reply[0] = word("%012x@n1:6379 1@n2:6379") },
		"much": func(mode string, _ int, _ string, reply []any) {
			if reply[1] = word("%040x"); mode == "read" {
				reply[2] = slices.Repeat([]any{strings.Repeat("x@y ", 1<<8)}, 1<<8)
			}
		},
	} {
		bubble(t, 5, func(t *testing.T, fl *fleet) {
			a := fl.locker("a")
			time.Sleep(2 * time.Minute)
			own := fmt.Sprintf("%s", listsOn(fl.nodes[0])[0])
			fl.nodes[0].Alter(func(c sim.Command) (any, bool, time.Duration) {
				reply, _ := c.Reply.([]any)
				if len(c.Args) < 4 || c.Args[3] != "redlock:lists" || len(reply) != 3 {
					return nil, false, 0
				}
				keys, _ := strconv.Atoi(c.Args[2])
				reply = slices.Clone(reply)
				invent(c.Args[3+keys], keys-1, own, reply)
				return reply, true, 0
			})
			asked := exchanged(fl)
			const clients = 20
			for range clients {
				b := must(fl.open("b", []int{0, 1, 2, 3, 4}))(t)
				for _, l := range []*Locker{a, b} {
					succeeds(t, must(l.Lock(t.Context(), "job"))(t).Unlock())
				}
				time.Sleep(10 * time.Second)
				succeeds(t, b.mayLock())
				succeeds(t, b.Close())
			}
			votes, others := asked("vote"), asked("ask")+asked("read")+asked("count")
			between(t, votes, 0, clients*5*5, "%s: registrations of a client, and of those that come and go", what)
			between(t, others, 0, clients*5*15, "%s: other questions", what)
			if known := listsOn(fl.nodes[1]); len(known) > 1+5 {
				t.Errorf("%s: an honest node knows %q", what, known)
			}
		})
	}
}

// Clients that know the nodes by other addresses, or restarted nodes, do not conflict.
func TestAnIdentityOutlivesAddresses(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		a := fl.locker("a")
		dial := fl.net.Dialer("b")
		var other []string
		for _, n := range fl.nodes {
			other = append(other, "redis://other-"+n.Addr())
		}
		b := must(New(other, dialing(func(ctx context.Context, network, addr string) (net.Conn, error) {
			return dial(ctx, network, strings.TrimPrefix(addr, "other-"))
		})))(t)
		defer b.Close()
		for _, n := range fl.nodes {
			n.Crash(false)
			n.Restart()
			time.Sleep(40 * time.Second)
			for _, l := range []*Locker{a, b} {
				findsNoLists(t, l, "after a restart")
			}
			succeeds(t, fl.locker("c").Close())
		}
	})
}

// A node that refuses the exchange is as good as before; which clients use it is not known.
func TestRegistrationThatIsRefused(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		fl.nodes.do("SET", "redlock:lists", "foreign")
		l := fl.locker("a")
		succeeds(t, must(l.Lock(t.Context(), "job"))(t).Unlock())
		for _, n := range l.Status(t.Context()) {
			if len(n.Findings) != 1 || n.Findings[0].Code != "lists-refused" || n.Findings[0].Severity != finding.Note {
				t.Errorf("found %+v", n.Findings)
			}
		}
	})
}
