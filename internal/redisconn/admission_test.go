package redisconn

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// shared makes the Conns of one test share what there is about their addresses.
func (f *fake) shared() Config {
	config := f.config()
	config.DialID = f
	return config
}

// addressesLeft returns how many addresses of a fake are remembered.
func (f *fake) addressesLeft() (n int) {
	addresses.mu.Lock()
	defer addresses.mu.Unlock()
	for key := range addresses.of {
		if key.dial == any(f) {
			n++
		}
	}
	return n
}

// However many connections are made at one moment, a bounded number of handshakes is under way, in the order in which
// they came, and the time limit of each begins with it. Another address has handshakes of its own.
func TestHandshakesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		var mu sync.Mutex
		var order []int
		var now, most int
		config := f.shared()
		config.Handshake = func(do Do) error {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(900 * ms) // nearly the time limit
			_, err := do([]any{"ECHO", "hello"})
			mu.Lock()
			now--
			mu.Unlock()
			return err
		}
		const clients = 5 * maxHandshakes
		var all []*client
		for i := range clients {
			config.OnChange = func() {
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
			}
			all = append(all, start(t, "redis://fake", config))
			synctest.Wait()
		}
		other := config
		other.OnChange = nil
		free := start(t, "redis://other", other)
		time.Sleep(901 * ms)
		free.is(up, nil)
		time.Sleep(5 * 901 * ms)
		for _, c := range all {
			c.is(up, nil)
		}
		if f.wantsAttempts(t, clients+1); most != maxHandshakes+1 {
			t.Errorf("%d handshakes at a time, want %d, one of them with the other address", most, maxHandshakes+1)
		}
		for turn := range clients / maxHandshakes {
			part := slices.Sorted(slices.Values(order[turn*maxHandshakes : (turn+1)*maxHandshakes]))
			if part[0] != turn*maxHandshakes || part[maxHandshakes-1] != (turn+1)*maxHandshakes-1 {
				t.Errorf("turn %d had the clients %v", turn, part)
			}
		}
		for _, c := range append(all, free) {
			c.Close()
		}
		if left := f.addressesLeft(); left != 0 {
			t.Errorf("%d addresses are remembered after Close", left)
		}
	})
}

// While a handshake waits for its turn, no time limit runs.
func TestATurnMayComeLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := newFake().shared()
		config.Dial = nobody
		var failed atomic.Int32
		config.OnDisconnect = func() { failed.Add(1) }
		for range 2 * maxHandshakes {
			start(t, "redis://fake", config)
		}
		for _, want := range []int32{0, maxHandshakes, 2 * maxHandshakes} {
			time.Sleep(990 * ms)
			if got := failed.Load(); got != want {
				t.Errorf("after %d s, %d attempts have failed, want %d", want/maxHandshakes, got, want)
			}
			time.Sleep(10 * ms)
		}
	})
}

// An attempt that fails gives its turn to the next.
func TestAFailedAttemptEndsItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.refuse(true)
		var all []*client
		for range 2 * maxHandshakes {
			all = append(all, start(t, "redis://fake", f.shared()))
		}
		time.Sleep(10 * time.Second)
		f.refuse(false)
		time.Sleep(4 * time.Second) // the longest pause
		for _, c := range all {
			c.is(up, nil)
		}
	})
}

// Close does not wait for a handshake's turn.
func TestCloseEndsTheWaitForATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.answerAll("ECHO", silence)
		config := f.shared()
		config.Handshake = echo
		for range maxHandshakes {
			start(t, "redis://fake", config)
		}
		synctest.Wait()
		last := start(t, "redis://fake", config)
		synctest.Wait()
		takes(t, 0, last.Close)
	})
}

// ping makes the server answer something.
func (c *client) ping() { c.Ask(func([]any, error) {}, []any{"PING"}) }

// A handshake is not given up while the server answers others, nor while this process runs late, but it is in the end.
func TestASlowHandshakeIsSpared(t *testing.T) {
	for _, c := range []struct {
		name          string
		answers, late bool
		want          time.Duration // until it is given up
	}{
		{"the server is silent", false, false, time.Second},
		{"the server answers others", true, false, (1 + maxSpared) * time.Second},
		{"this process runs late", false, true, (1 + maxSpared) * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			var slow, over atomic.Bool
			var skew atomic.Int64
			config := f.shared()
			begun := time.Now()
			config.Now = func() time.Time { return time.Now().Add(time.Duration(skew.Load())) }
			well := start(t, "redis://fake", config)
			synctest.Wait()
			config.Handshake = func(do Do) error {
				slow.Store(true)
				return echo(do)
			}
			f.answerAll("ECHO", silence)
			config.OnChange = func() { over.Store(true) }
			start(t, "redis://fake", config)
			synctest.Wait()
			if !slow.Load() {
				t.Fatal("no handshake")
			}
			for range 10 * 20 {
				time.Sleep(50 * ms)
				if c.answers {
					well.ping()
				}
				if c.late {
					skew.Add(int64(10 * ms))
				}
				if synctest.Wait(); over.Load() {
					break
				}
			}
			if took := time.Since(begun); took < c.want-50*ms || took > c.want+100*ms {
				t.Errorf("%s: given up after %s, want %s", c.name, took, c.want)
			}
		})
	}
}
