package sim

import (
	"slices"
	"time"
)

// Delay is a distribution of one-way delays: uniform in [Min, Max), but with probability Slow uniform in [Max,
// SlowMax).
type Delay struct {
	Min, Max, SlowMax time.Duration
	Slow              float64
}

// LAN is the delay of a new Network: a fast local network with a rare hiccup.
var LAN = Delay{Min: 100 * time.Microsecond, Max: 500 * time.Microsecond, SlowMax: 5 * time.Millisecond, Slow: 0.01}

func (d Delay) at(h uint64) time.Duration {
	lo, hi := d.Min, d.Max
	if d.Slow > 0 && unit(mix(h, 1)) < d.Slow {
		lo, hi = d.Max, d.SlowMax
	}
	v := lo
	if hi > lo {
		v += time.Duration(unit(mix(h, 2)) * float64(hi-lo))
	}
	// The odd tail keeps events of different connections apart even where Min = Max; 1 µs is below all that matters.
	return v + time.Duration(mix(h, 3)%997)
}

type delayRule struct {
	link  Link
	dir   Dir
	delay Delay
}

// SetDelay gives the links and directions a distribution for what is sent from now on.
func (nw *Network) SetDelay(link Link, dir Dir, d Delay) {
	nw.delayMu.Lock()
	defer nw.delayMu.Unlock()
	nw.delays = slices.DeleteFunc(nw.delays, func(r delayRule) bool { // what is wholly overruled
		return link.covers(r.link) && dir&r.dir == r.dir
	})
	nw.delays = append(nw.delays, delayRule{link, dir, d})
}

// delay is a pure function of seed, connection, direction and instant, given the distributions. Pipes call it.
func (nw *Network) delay(link Link, dir Dir, id uint64, now time.Time) time.Duration {
	nw.delayMu.Lock()
	defer nw.delayMu.Unlock()
	d := LAN
	for _, r := range nw.delays {
		if r.dir&dir != 0 && r.link.covers(link) {
			d = r.delay
		}
	}
	return d.at(mix(id, uint64(now.UnixNano())))
}
