package redisconn

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
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

// Where this process is not scheduled for a while, again and again, a server that answers late is not to blame: it
// keeps its connection and gets requests.
func TestAStarvedClientDoesNotBlameTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c, sleeps := starving(t)
		f.answerAll("EVALSHA", silence)
		for range 2 * maxStarved {
			r := c.send(first, "a")
			sleeps(500 * ms)
			time.Sleep(250*ms + 250*ms/16)
			r.fails(ErrLate)
			c.is(up, nil)
			f.say(":1\r\n")
			synctest.Wait()
		}
		time.Sleep(2 * time.Second)
		f.wantsAttempts(t, 1)
	})
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
