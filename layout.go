package redlock

// How the arguments of a script are laid out for all requests of a group: see the scripts' heads, in internal/lua/.
// What every lock costs is in its form already when it comes here, since five nodes want the same.

// rows is n arguments for each key, those of one key together.
func rows(n int) func(g *group, w *wire) {
	return func(g *group, w *wire) {
		for _, r := range g.requests {
			for range r.call.keys() {
				r.call.addArgs(w, n)
			}
		}
	}
}

// rowForAll is n arguments for all keys of a request together, how many keys, and who has them now.
func rowForAll(n int) func(g *group, w *wire) {
	return func(g *group, w *wire) {
		for _, r := range g.requests {
			s := r.call.several
			r.call.addArgs(w, n)
			w.add(len(s.keys)) // a small number: boxed without an allocation
			w.add(len(s.from))
			for _, owner := range s.from {
				w.add(owner)
			}
		}
	}
}

// columns is all owners, then for each key its token and the key, then the TTL: once where all have the same.
func columns(g *group, w *wire) {
	for _, r := range g.requests {
		w.addForm(r.call.ownerForm[:])
	}
	ttl, same := g.requests[0].call.args[1], true
	for _, r := range g.requests {
		w.addForm(r.call.tokenForm[:])
		w.addForm(r.call.keyForm)
		same = same && r.call.args[1] == ttl
	}
	if same {
		w.add(ttl)
		return
	}
	for _, r := range g.requests {
		w.add(r.call.args[1])
	}
}

// toRelease is one argument with all owners, and then, each where somebody has one, the places of all in the queue and
// the tokens of all that no extension is to come back behind.
func toRelease(g *group, w *wire) {
	w.args = appendLine(w.args, '$', g.keys*(ownerLen+1)-1)
	queued, extended := false, false
	for i, r := range g.requests {
		for k := range r.call.keys() {
			if i+k > 0 {
				w.args = append(w.args, ' ')
			}
			w.args = append(w.args, r.call.owner()...)
		}
		queued = queued || r.call.args[1] != nowhere
		extended = extended || r.call.args[2] != noToken
	}
	w.args = append(w.args, '\r', '\n')
	w.n++
	for arg, add := range []bool{queued || extended, extended} {
		if !add {
			continue
		}
		for _, r := range g.requests {
			for range r.call.keys() {
				w.add(r.call.args[1+arg])
			}
		}
	}
}
