package waiting

import (
	"time"

	"github.com/quorumlock/redlock/internal/quorum"
)

const ms = time.Millisecond

// poll returns a poll in which nobody has voted.
func poll(e *quorum.Electorate) *quorum.Poll {
	p := &quorum.Poll{}
	p.Init(e)
	p.Begin()
	return p
}
