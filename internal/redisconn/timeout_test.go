package redisconn

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/redlock/internal/resp"
)

// A request times out once. The reply that comes later is dropped, and shows that the server responds again.
func TestAReplyMayComeTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changes atomic.Int32
		f, c := connect(t, func(_ *fake, config *Config) { config.OnChange = func() { changes.Add(1) } })
		f.answer("EVALSHA", silence, silence)
		r := c.send(first, "a")
		time.Sleep(100 * ms)
		later := c.send(first, "b")
		time.Sleep(150*ms - 1)
		r.wants("")
		time.Sleep(time.Nanosecond)
		r.fails(ErrTimeout)
		later.wants("")
		if c.is(up, ErrTimeout); changes.Load() != 2 || r.isDone() {
			t.Errorf("%d changes, done with %t", changes.Load(), r.isDone())
		}
		time.Sleep(100 * ms)
		later.fails(ErrTimeout)
		f.say(":1\r\n")
		if c.is(up, nil); changes.Load() != 3 || !r.isDone() || later.isDone() {
			t.Errorf("%d changes, done with %t, %t", changes.Load(), r.isDone(), later.isDone())
		}
		again := c.send(first, "a")
		f.say(":1\r\n")
		again.wants("as usual")
	})
}

// Each native command has a reply of its own, and each may time out by itself.
func TestANativeCommandsReplyMayComeTooLate(t *testing.T) {
	online(t, func(_ *testing.T, f *fake, c *client) {
		stuck(f, c)
		f.answer("ECHO #1", silence)
		f.answer("ECHO #2", silence)
		late := c.send(native)
		time.Sleep(200 * ms)
		later := c.send(native)
		f.resume()
		time.Sleep(100 * ms)
		late.fails(ErrTimeout)
		f.say("+LATE\r\n+IN TIME\r\n")
		late.fails(ErrTimeout)
		later.wants("IN TIME")
	})
}

// A request that is sent again with its script gets no more time.
func TestWhatIsSentAgainMayTimeOut(t *testing.T) {
	online(t, func(_ *testing.T, f *fake, c *client) {
		f.answer("EVALSHA", silence)
		f.answer("EVAL ", silence)
		r := c.send(first, "a")
		time.Sleep(200 * ms)
		f.say(noScript)
		time.Sleep(60 * ms)
		r.fails(ErrTimeout)
		f.say(":1\r\n")
	})
}

// What a server that is frozen for long is said to do, at each stage: it does not answer, and it is not the address or
// the network that is to blame.
func TestTheReasonForASilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		f, c := connect(t, echoes, func(f *fake, config *Config) {
			config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				if full.Load() {
					return nobody(ctx, network, address)
				}
				return f.dial(ctx, network, address)
			}
		})
		wants := func(text string) {
			t.Helper()
			synctest.Wait()
			up, err := c.State()
			if up || err == nil || err.Error() != "not connected: "+text ||
				!errors.Is(err, ErrTimeout) || !errors.Is(err, ErrDown) || !errors.As(err, new(SilentError)) {
				t.Errorf("connected %t, %v, want %s", up, err, text)
			}
		}
		f.answerAll("E", silence)
		r := c.send(first, "a")
		time.Sleep(250*ms + time.Second)
		wants("no answer for 1 s; connection replaced")
		r.fails(ErrTimeout)
		time.Sleep(1100 * ms) // the attempts to connect that follow
		wants("at ECHO: it accepts connections, but did not answer for 1 s")
		time.Sleep(10 * time.Second)
		wants("at ECHO: it accepts connections, but did not answer for 1 s")
		full.Store(true)
		time.Sleep(11 * time.Second)
		wants("no connection within 1 s, after it had stopped answering")
		full.Store(false)
		f.recover()
		time.Sleep(10 * time.Second) // the longest pause, and the attempt
		c.is(up, nil)
	})
}

// starving returns a fake and a connected client whose clock can be set forward, as if it had not been scheduled.
func starving(t *testing.T) (f *fake, c *client, sleeps func(time.Duration)) {
	t.Helper()
	var slept atomic.Int64
	f, c = connect(t, func(_ *fake, config *Config) {
		config.Now = func() time.Time { return time.Now().Add(time.Duration(slept.Load())) }
	})
	return f, c, func(d time.Duration) { slept.Add(int64(d)) }
}

// If the watchdog fires late, the reader was probably not scheduled either: replies may wait to be read.
func TestAWatchdogThatIsLateWaitsForTheReader(t *testing.T) {
	for _, answered := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f, c, sleeps := starving(t)
			f.answerAll("EVALSHA", silence)
			for again := range 2 { // the next request may be late as well
				r := c.send(first, "a")
				sleeps(time.Minute)
				time.Sleep(250 * ms)
				if r.wants(""); answered && again == 0 {
					f.say(":1\r\n")
				}
				if time.Sleep(250 * ms / 16); !answered || again == 1 {
					r.fails(ErrTimeout)
					return
				}
				r.wants("as usual")
			}
		})
	}
}

// Where this process is not scheduled for a while, again and again, the server is not to blame: it keeps its connection
// and gets requests. But its silence is noticed all the same.
func TestAStarvedClientDoesNotBlameTheServer(t *testing.T) {
	for _, answers := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f, c, sleeps := starving(t)
			f.answerAll("EVALSHA", silence)
			for i := range 2 * maxStarved {
				r := c.send(first, "a")
				sleeps(500 * ms)
				time.Sleep(250*ms + 250*ms/16)
				synctest.Wait()
				_, err := c.State()
				if silent := !answers && i >= maxStarved; silent != errors.Is(err, ErrTimeout) {
					t.Errorf("answers %t, after %d time-outs: %v", answers, i+1, err)
				}
				if r.fails(ErrTimeout); errors.Is(r.err, ErrLate) != (answers || i < maxStarved) {
					t.Errorf("answers %t, after %d time-outs: the request got %v", answers, i+1, r.err)
				}
				if answers {
					f.say(":1\r\n")
					synctest.Wait()
				}
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if got := f.attempts(); got > 1 == answers {
				t.Errorf("answers %t: %d connections", answers, got)
			}
		})
	}
}

// An undo that fails with a transient error is sent again, four times a second, until nothing is left to undo.
func TestAnUndoThatIsRefusedIsSentAgain(t *testing.T) {
	for _, c := range []struct {
		command *Command
		refusal string
		sent    int // in a second
	}{
		{undo, busy, 4},
		{undo, "-LOADING Redis is loading the dataset in memory\r\n", 4},
		{undo, "-MISCONF Redis is configured to save RDB snapshots\r\n", 4},
		{undo, "-NOREPLICAS Not enough good replicas to write.\r\n", 4},
		{undo, "-OOM command not allowed when used memory > 'maxmemory'.\r\n", 4},
		{undo, "-ERR Error running script (call to f_1): @user_script:1: -OOM command not allowed\r\n", 4},
		{spare, busy, 4},
		{undo, noPerm, 1},
		{undo, "-ERR unknown\r\n", 1},
		{undo, ":7\r\n", 1},
		{first, busy, 1},
	} {
		online(t, func(t *testing.T, f *fake, client *client) {
			f.answerAll("EVALSHA", c.refusal)
			r := client.send(c.command, "a")
			time.Sleep(time.Second - 1)
			if c.refusal == ":7\r\n" {
				r.wants("unexpected reply 7")
			} else {
				r.wants(strings.Trim(c.refusal, "-\r\n"))
			}
			if got := len(f.received()); got != c.sent || r.isDone() != (c.sent == 1) {
				t.Errorf("%s: sent %d times in a second, want %d; done with %t", c.refusal, got, c.sent, r.isDone())
			}
			r.end()
			time.Sleep(250 * ms)
			if f.wants(t); !r.isDone() {
				t.Errorf("%s: not done with when it is over", c.refusal)
			}
		})
	}
}

// backlog checks how many undos the Conn keeps.
func (c *client) backlog(want int) {
	c.t.Helper()
	c.settle()
	if got := c.Backlog(); got != want {
		c.t.Errorf("%d are kept, want %d", got, want)
	}
}

// The undos that a busy server refuses are sent again together, up to a limit, so that they do not keep it busy. A
// server that is away is kept no more spare ones than that.
func TestThereIsALimitOfUndosToKeep(t *testing.T) {
	online(t, func(_ *testing.T, f *fake, c *client) {
		f.answerAll("EVALSHA", busy)
		for range maxPostponed + 100 {
			c.send(undo)
		}
		c.backlog(maxPostponed)
		f.recover()
		time.Sleep(250 * ms)
		c.backlog(0)
	})
	online(t, func(t *testing.T, f *fake, c *client) {
		f.leave()
		taken := 0
		for range maxPostponed + 100 {
			r, ok := c.offer(spare)
			if ok {
				taken++
			}
			r.fails(ErrDown)
		}
		if _, ok := c.offer(undo); !ok || taken != maxPostponed {
			t.Errorf("%d are taken, want %d; one that is not spare: %t", taken, maxPostponed, ok)
		}
		c.backlog(maxPostponed + 1)
	})
}

// laggard is a command for which this process needs a while before it writes: as if it were not scheduled.
func laggard(lag time.Duration) *Command {
	return &Command{Script: first.Script, Args: func([]*Request, *resp.Encoder) { time.Sleep(lag) }}
}

// A request that this process sends late, or not at all, is not one to which the server is silent: it says so, and the
// server goes on getting requests.
func TestARequestThatIsSentLateDoesNotBlameTheServer(t *testing.T) {
	for _, c := range []struct {
		lag  time.Duration // of the request before
		late bool
	}{
		{100 * ms, false}, // it had more than half of the time-out
		{200 * ms, true},
		{240 * ms, true},
	} {
		online(t, func(t *testing.T, f *fake, client *client) {
			f.answer("EVALSHA", ":1\r\n", silence) // the first is to the request before
			client.send(laggard(c.lag), "a")
			time.Sleep(time.Millisecond)
			r := client.send(second, "b")
			time.Sleep(250 * ms)
			r.fails(ErrTimeout)
			if _, err := client.State(); errors.Is(r.err, ErrLate) != c.late || (err == nil) != c.late {
				t.Errorf("after %v: got %v, then %v; late %t", c.lag, r.err, err, c.late)
			}
			f.say(":1\r\n")
			synctest.Wait()
		})
	}
}

// A server that does not read is silent, also to what has not been sent.
func TestAServerThatDoesNotReadIsSilentToWhatIsNotSent(t *testing.T) {
	online(t, func(t *testing.T, f *fake, c *client) {
		stuck(f, c)
		time.Sleep(200 * ms)
		r := c.send(first, "a")
		time.Sleep(250 * ms)
		r.fails(ErrTimeout)
		if c.is(up, ErrTimeout); errors.Is(r.err, ErrLate) {
			t.Errorf("got %v", r.err)
		}
		f.resume()
	})
}

// Where this process sends every request late, a server that is silent is noticed all the same.
func TestASilentServerIsNoticedByALateProcess(t *testing.T) {
	online(t, func(t *testing.T, f *fake, c *client) {
		time.Sleep(time.Second)
		f.answerAll("EVALSHA", silence)
		c.ago = 200 * ms
		for i := range 10 {
			r := c.send(first, "a")
			time.Sleep(50 * ms)
			r.fails(ErrTimeout)
			if _, err := c.State(); errors.Is(err, ErrTimeout) != (i >= 4) {
				t.Errorf("request %d: got %v, then %v", i, r.err, err)
			}
		}
	})
}

// Nor is an established connection over which nothing comes.
func TestASilentConnectionIsSparedWhileOthersAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		config := f.shared()
		silent := start(t, "redis://fake", config)
		synctest.Wait()
		well := start(t, "redis://fake", config)
		synctest.Wait()
		f.answer("EVALSHA", silence)
		silent.send(first, "a")
		for range 20 * 8 {
			time.Sleep(50 * ms)
			well.ping()
		}
		silent.is(up, ErrTimeout)
		f.wantsAttempts(t, 2)
		for range 20 * 2 {
			time.Sleep(50 * ms)
			well.ping()
		}
		f.wantsAttempts(t, 3) // the one may be half-open
	})
}
