package redlock

import (
	"context"
	"strings"
	"testing"
	"time"
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
