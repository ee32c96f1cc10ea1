package quorum

import "time"

const ms = time.Millisecond

// poll returns a poll in which nobody has voted.
func poll(e *Electorate) *Poll {
	p := &Poll{}
	p.Init(e)
	p.Begin()
	return p
}
