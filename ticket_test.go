package redlock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/redlock/internal/sim"
)

func TestHandOver(t *testing.T) {
	modes(t, 3, func(t *testing.T, fl *fleet, opts ...Option) {
		a, b := fl.locker("a", opts...), fl.locker("b", opts...)
		first := must(a.Lock(t.Context(), "job two", WithTTL(3*time.Second)))(t)
		settleNetwork()
		text := must(first.Ticket())(t)
		if text != must(first.Ticket())(t) || strings.ContainsAny(text, " \n/+=") {
			t.Errorf("ticket %q", text)
		}
		fails(t, first.Err(), errHandedOver, "the first hold")
		time.Sleep(time.Second)
		second := must(b.Adopt(t.Context(), text, WithTTL(3*time.Second)))(t)
		if second.Name() != "job two" || second.Owner() == first.Owner() {
			t.Errorf("adopted %q of %s", second.Name(), second.Owner())
		}
		if a.opts.fencing && second.Token() <= first.Token() {
			t.Errorf("token %d after %d", second.Token(), first.Token())
		}
		succeeds(t, first.Unlock(), "Unlock after the hand-over")
		time.Sleep(10 * time.Second)
		if second.Err() != nil || fl.holding("job two") != 3 {
			t.Errorf("the second hold: %v, on %d nodes", second.Err(), fl.holding("job two"))
		}
		succeeds(t, second.Unlock())
		settleNetwork()
		fails(t, errOf(a.Adopt(t.Context(), text)), ErrTaken, "a ticket that was used")
		fl.isHeld("job two", 0)
	})
}

// A hold that goes from process to process leaves the value of none of them, however it ends.
func TestAHandOverLeavesNoValue(t *testing.T) {
	for name, end := range map[string]func(k *Lock){
		"Unlock":  func(k *Lock) { _ = k.Unlock() },
		"maximum": func(k *Lock) { <-k.Done() },
		"loss":    func(k *Lock) { _ = k.Extend(context.Background()) },
	} {
		subtest(t, name, 3, func(t *testing.T, fl *fleet) {
			a, b := fl.locker("a"), fl.locker("b")
			k := must(a.Lock(t.Context(), "job"))(t)
			succeeds(t, k.SetValue(t.Context(), "a's"))
			for range 2 {
				opts := []LockOption{WithMaxHold(8 * time.Second), WithTTL(9 * time.Second), WithoutRenewal()}
				k = must(b.Adopt(t.Context(), must(k.Ticket())(t), opts...))(t)
			}
			if name == "loss" {
				settleNetwork()
				fl.nodes.do("SET", "job", "thief", "PX", "1000")
			}
			end(k)
			time.Sleep(time.Second)
			fl.clean()
		})
	}
}

// Of several calls of Adopt at once at most one succeeds. If the votes are split, none does, and the ticket can be used
// again.
func TestConcurrentAdoptionsHaveOneWinner(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		lockers := []*Locker{fl.locker("a"), fl.locker("b"), fl.locker("c")}
		splits := 0
		for range 200 {
			text := must(must(lockers[0].Lock(t.Context(), "job"))(t).Ticket())(t)
			var adopted []*Lock
			for tries := 0; len(adopted) == 0; tries++ {
				if tries > 100 {
					t.Fatal("no call can adopt")
				}
				results := make(chan *Lock, len(lockers))
				for _, l := range lockers {
					go func() {
						k, err := l.Adopt(t.Context(), text)
						if err != nil && !errors.Is(err, ErrTaken) {
							t.Errorf("got %v, want ErrTaken", err)
						}
						results <- k
					}()
				}
				for range lockers {
					if k := <-results; k != nil {
						adopted = append(adopted, k)
					}
				}
				if len(adopted) == 0 {
					splits++
				}
				settleNetwork()
			}
			if len(adopted) != 1 {
				t.Fatalf("%d calls adopted", len(adopted))
			}
			settleNetwork() // the undo of the other calls may take longer than this Unlock
			succeeds(t, adopted[0].Unlock())
			fl.settles("job", 0)
		}
		if splits == 0 {
			t.Error("the votes were never split: this proves too little")
		}
	})
}

// The nodes hand the lock to a waiter. The waiter has a majority and makes a ticket before the message of one node
// arrives. The vote of that node must not be given back: it is for the process that adopts the hold.
func TestATicketKeepsVotesThatArriveLater(t *testing.T) {
	for _, node := range []int{0, 4} {
		bubble(t, 5, func(t *testing.T, fl *fleet) {
			a, b := fl.locker("a"), fl.locker("b")
			for range 20 {
				k := must(a.Lock(t.Context(), "job"))(t)
				tickets := make(chan string)
				go func() {
					k, err := b.Lock(t.Context(), "job")
					succeeds(t, err)
					text, _ := k.Ticket()
					tickets <- text
				}()
				time.Sleep(time.Second)
				fl.net.SetDelay(link0("b", node), sim.Down, sim.Delay{Min: 30 * ms, Max: 30 * ms})
				_ = k.Unlock()
				text := <-tickets
				time.Sleep(200 * ms)
				synctest.Wait()
				fl.isHeld("job", 5)
				fl.net.SetDelay(link0("b", node), sim.Down, sim.LAN)
				_ = must(a.Adopt(t.Context(), text))(t).Unlock()
				time.Sleep(2 * time.Second) // until the name no longer counts as contended
			}
			time.Sleep(b.opts.ttl)
			b.listeners.mu.Lock()
			defer b.listeners.mu.Unlock()
			equals(t, len(b.listeners.of), 0, "owners whose holds have ended, and are kept in mind")
		})
	}
}

func TestBadTickets(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		good := must(must(l.Lock(t.Context(), "job"))(t).Ticket())(t)
		for _, text := range []string{"", "x", ticketPrefix, good[1:], good[:len(good)-9], ticketPrefix + "!!", good + "%"} {
			fails(t, errOf(l.Adopt(t.Context(), text)), ErrInvalid, text)
		}
	})
}

func FuzzParseTicket(f *testing.F) {
	f.Add("redlock1.NWI4")
	f.Add("redlock1.MDAwMDAwMDAtMDAwMC00MDAwLTgwMDAtMDAwMDAwMDAwMDAwIDEgMiBuYW1l")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseTicket(text)
		if err == nil && (got.name == "" || got.token < 0 || got.token >= 1<<53) {
			t.Errorf("%q: accepted as %+v", text, got)
		}
	})
}

// A node hands the lock to the owner of a ticket after the end of the hold. No process can be expected to adopt it any
// more, so it is given back.
func TestAGrantAfterTheEndOfATicketIsReturned(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		a := fl.locker("a")
		first := must(fl.locker("b").Lock(t.Context(), "job"))(t)
		time.AfterFunc(time.Second, func() { _ = first.Unlock() })
		k := must(a.Lock(t.Context(), "job", WithTTL(2*time.Second)))(t)
		must(k.Ticket())(t)
		time.Sleep(3 * time.Second)
		fl.nodes[0].Do("SET", "job", k.Owner(), "PX", 60_000)
		fl.nodes[0].Do("PUBLISH", a.listeners.channel, k.Owner()+"  job")
		fl.settles("job", 0)
	})
}
