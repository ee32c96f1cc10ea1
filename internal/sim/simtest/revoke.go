package simtest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/redlock/internal/sim"
)

// Now and then a worker takes a lock from whoever has it on some node, be it a holder or not. Two lemmas judge that
// where the nodes forget nothing:
//
//   - revoked, on every node: once it was told to take a lock from an owner, it never gives it to that owner again.
//   - revoked, at every end of a hold: when ForceUnlock has returned nil, nothing that the owner asks for after that
//     makes its hold longer.

// revocations are the owners that a lock was taken from.
type revocations struct {
	mu    sync.Mutex // protects the following fields
	asked map[string]time.Time
	ended map[string]time.Time // when ForceUnlock returned nil
	held  map[string]holds     // all holds
	nodes map[string][]part    // by node: what was taken there
}

func newRevocations() revocations {
	return revocations{
		asked: map[string]time.Time{}, ended: map[string]time.Time{}, held: map[string]holds{}, nodes: map[string][]part{},
	}
}

func (w *worker) revoke() {
	name := w.someKey(w.apart)
	asked, locker := time.Now(), w.locker.Load().Locker
	found, _ := locker.Inspect(context.Background(), name)
	w.bounded("Inspect", asked, w.set.timeout)
	var owners []string
	for _, n := range found.Nodes {
		for _, owner := range append(n.Readers, n.Owner) {
			if owner != "" && owner != marker && !slices.Contains(owners, owner) {
				owners = append(owners, owner)
			}
		}
	}
	if owners == nil {
		return
	}
	owner := owners[w.apart.IntN(len(owners))]
	use := w.meetings.begin(ForceUnlock)
	defer w.meetings.end(use)
	w.revoked.begin(owner, w.history)
	asked = time.Now()
	err := locker.ForceUnlock(context.Background(), name, owner)
	if err == nil {
		w.revoked.end(owner)
		w.count("revoked", 1)
	}
	w.log(w.label, "ForceUnlock %s: %s", name, kindOf(err))
	w.bounded("ForceUnlock", asked, w.set.timeout)
}

// begin: from now on the owner's holds exclude nobody, though its holder does not know it.
func (r *revocations) begin(owner string, h *sim.History) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, again := r.asked[owner]; !again {
		r.asked[owner] = time.Now()
		r.held[owner].each(h.Revoked)
	}
}

func (r *revocations) end(owner string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, again := r.ended[owner]; !again {
		r.ended[owner] = time.Now()
	}
}

func (r *revocations) granted(owner string, hold holds, h *sim.History) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held[owner] = hold
	if _, is := r.asked[owner]; is {
		hold.each(h.Revoked)
	}
}

// revokedOwner reports whether the hold's owner was revoked, or is being revoked; and judges how long it was trusted.
func (w *world) revokedOwner(lock held, who string) bool {
	w.revoked.mu.Lock()
	_, asked := w.revoked.asked[lock.Owner()]
	at, ended := w.revoked.ended[lock.Owner()]
	w.revoked.mu.Unlock()
	if ended && w.scenario.Remembers() && !w.doubles() && lock.Deadline().After(at.Add(w.scenario.TTL)) {
		w.blame("revoked", "%s trusts its hold of %s, token %d, until %v, which was taken from it at %v, a TTL of %v before",
			who, lock.Name(), lock.Token(), since(lock.Deadline()), since(at), w.scenario.TTL)
	}
	return asked
}

// checkRevoked judges a node after a command, by what was taken there.
func (w *world) checkRevoked(c sim.Command, s shape, after sim.Data) {
	if !w.scenario.Remembers() {
		return
	}
	w.revoked.mu.Lock()
	defer w.revoked.mu.Unlock()
	taken := w.revoked.nodes[c.Node]
	if _, failed := c.Reply.(sim.Error); s.name == "revoke" && !failed {
		keys, argv := keysAndArguments(c)
		for i, own := range s.each(argv, len(keys)) {
			taken = append(taken, part{c.Node, own[s.owner], keys[i]})
		}
	}
	w.revoked.nodes[c.Node] = slices.DeleteFunc(taken, func(p part) bool {
		has := after.Text(p.key)
		_, reads := after.Score(readersOf(p.key), p.owner)
		if has != p.owner && !(has == marker && reads) {
			return false
		}
		if c.Args[0] == "set" { // without a token, a free lock is acquired by a command that cannot look
			return true
		}
		w.blame("revoked", "%v on %s: %s has %s, which was taken from it there, by a command of %s: %s",
			since(c.At), c.Node, p.owner, p.key, c.Client, request(c.Args))
		return true
	})
}
