package simtest

import (
	cryptorand "crypto/rand"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/quorumlock/redlock/internal/boottime"
	"github.com/quorumlock/redlock/internal/chance"
)

// Everything that the library draws by itself becomes a function of the instant and of who asks: however the scheduler
// orders the goroutines that draw at one instant, each gets its own.
func init() {
	// The boot-time clock is a system call: real time, which must not leak into the bubble.
	boottime.Disable()
	chance.Duration = func(limit time.Duration) time.Duration { return time.Duration(source().Int64N(int64(limit))) }
	cryptorand.Reader = &uniqueBytes{}
}

func source() *rand.Rand { return rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), callers())) }

// callers is a hash of the functions that its caller was called by, for example those of a subscriber's connection and
// not those of the other one, which break together and must not be dialled again at one instant.
func callers() uint64 {
	var pcs [16]uintptr
	h := fnv.New64a()
	frames := runtime.CallersFrames(pcs[:runtime.Callers(4, pcs[:])])
	for {
		f, more := frames.Next()
		_, _ = io.WriteString(h, f.Function)
		if !more {
			return h.Sum64()
		}
	}
}

// uniqueBytes stands in for the source of owners. Owners must differ, and their order decides who waits before whom:
// the first bytes are the same in each replay, the last three tell two draws at one instant apart.
type uniqueBytes struct{ count atomic.Uint32 }

func (u *uniqueBytes) Read(b []byte) (int, error) {
	r, n := source(), u.count.Add(1)
	for i := range b {
		b[i] = byte(r.Uint32())
		if left := len(b) - 1 - i; left < 3 {
			b[i] = byte(n >> (8 * left))
		}
	}
	return len(b), nil
}
