package redisconn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Undos are kept for a server that is away, as long as they have something to undo.
func TestAnUndoWaitsForTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := connect(t)
		f.refuse(true)
		f.cut()
		time.Sleep(15 * ms) // an attempt was refused
		kept, over, lost := c.send(undo, "a"), c.send(undo, "b"), c.send(first, "c")
		for _, r := range c.rounds {
			r.fails(ErrDown)
		}
		over.end()
		time.Sleep(10 * time.Second)
		if !lost.isDone() || kept.isDone() || !over.isDone() || c.Backlog() != 1 {
			t.Errorf("%d are kept, want one undo", c.Backlog())
		}
		late := c.send(undo, "d")
		late.end() // before the Conn has noticed
		f.refuse(false)
		time.Sleep(time.Second)
		f.wants(t, "EVALSHA undo 1 a #0")
		if !kept.isDone() || !late.isDone() {
			t.Error("an undo is not done with")
		}
	})
}

// When the connection breaks, nobody can tell what the server executed of what was being written. Undos are sent again,
// since they are idempotent; other requests fail. What was not written waits for the next connection.
func TestNothingIsSentAgainButUndos(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := connect(t)
		f.answerAll("EVALSHA", silence)
		c.send(first, "a")
		c.send(undo, "b")
		over := c.send(undo, "c")
		synctest.Wait()
		over.end()
		stuck(f, c)
		written := len(c.rounds)
		c.send(first, "d")
		c.send(undo, "e")
		f.received()
		f.recover()
		f.cut()
		f.resume()
		synctest.Wait()
		for _, r := range c.rounds[:written] {
			r.fails(ErrDown)
		}
		time.Sleep(time.Second)
		f.wants(t, "EVALSHA undo 2 b e #1 #5", "EVALSHA first 1 d #4")
		for _, r := range c.rounds[written:] {
			r.wants("as usual")
		}
		if !over.isDone() || c.Backlog() != 0 {
			t.Errorf("done with %t, %d are kept", over.isDone(), c.Backlog())
		}
	})
}

// A connection that breaks is made anew at once if the server is well. What is sent meanwhile waits for that: within
// its time-out, in order, and for no outage.
func TestARequestWaitsForTheNextConnection(t *testing.T) {
	for _, c := range []struct {
		name   string
		breaks func(f *fake, c *client)
		after  time.Duration // what is sent then was answered, or has failed
		want   error         // nil: it was answered
	}{
		{"well", func(f *fake, _ *client) { f.cut() }, 15 * ms, nil},
		{"broken once more in the handshake", func(f *fake, _ *client) {
			f.answer("SCRIPT EXISTS", hangUp)
			f.cut()
		}, 60 * ms, nil},
		{"broken twice in the handshake", func(f *fake, _ *client) {
			f.answer("SCRIPT EXISTS", hangUp, hangUp)
			f.cut()
		}, 60 * ms, ErrDown},
		{"refused", func(f *fake, _ *client) { f.refuse(true); f.cut() }, 15 * ms, ErrDown},
		{"refused by its handshake", func(f *fake, _ *client) {
			f.answer("SCRIPT EXISTS", "-NOAUTH Authentication required.\r\n")
			f.answer("SCRIPT LOAD", "-NOAUTH Authentication required.\r\n")
			f.cut()
		}, 15 * ms, ErrDown},
		{"silent in the handshake", func(f *fake, _ *client) {
			f.answer("SCRIPT EXISTS", silence)
			f.cut()
		}, 250 * ms, ErrTimeout},
		{"slow in the handshake", func(f *fake, _ *client) {
			f.answer("SCRIPT EXISTS", silence)
			time.AfterFunc(300*ms, func() { f.say("*1\r\n:1\r\n") })
			f.cut()
		}, 250 * ms, ErrTimeout},
		{"closed", func(f *fake, c *client) { f.cut(); time.AfterFunc(ms, c.Stop) }, ms, ErrDown},
		{"replaced for its silence", func(f *fake, c *client) {
			f.answer("ECHO", silence)
			c.send(native)
			time.Sleep(250*ms + time.Second)
		}, 0, ErrDown},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, client := connect(t, func(config *Config) { config.Scripts = append(config.Scripts, first.Script) })
				c.breaks(f, client)
				synctest.Wait()
				f.received()
				r, u := client.send(first, "a"), client.send(undo, "a")
				asked := client.send(native)
				asked.fails(ErrDown)
				over := client.send(undo, "b")
				over.end()
				if time.Sleep(c.after); c.after > 0 {
					synctest.Wait()
				}
				if c.want != nil {
					r.fails(c.want)
					u.fails(c.want)
					over.fails(c.want)
				} else {
					r.wants("as usual")
					u.wants("as usual")
					over.fails(ErrDown)
				}
				f.recover()
				f.refuse(false)
				time.Sleep(10 * time.Second)
				var got []string
				for _, command := range f.received() {
					if strings.HasPrefix(command, "EVALSHA") {
						got = append(got, command)
					}
				}
				want := []string{fmt.Sprint("EVALSHA undo 1 a #", u.Node)}
				switch {
				case c.name == "closed":
					want = nil
				case c.want == nil:
					want = append([]string{"EVALSHA first 1 a #0"}, want...)
				}
				if !r.isDone() || !over.isDone() || c.name != "closed" && (!u.isDone() || client.Backlog() != 0) {
					t.Errorf("done with %t, %t, %t", r.isDone(), u.isDone(), over.isDone())
				}
				if strings.Join(got, "\n") != strings.Join(want, "\n") {
					t.Errorf("the server got %q, want %q", got, want)
				}
			})
		})
	}
}

// What is asked when there is a new connection goes ahead of the requests that waited for it, however many, and of
// those that come meanwhile. These stay in order.
func TestWhatIsAskedAtConnectingGoesFirst(t *testing.T) {
	for _, waiting := range []int{0, 1, MaxQueue} {
		synctest.Test(t, func(t *testing.T) {
			var client atomic.Pointer[client]
			f, c := connect(t, func(config *Config) {
				config.OnConnect = func() {
					c := client.Load()
					if c == nil {
						return // the first connection
					}
					c.send(native)
					time.Sleep(ms)
					c.send(undo, "a")
					c.send(urgent, "b")
					time.Sleep(ms)
					c.send(native)
				}
			})
			client.Store(c)
			f.upgrade(true)
			c.Hear(&Subscription{Channel: "wake"})
			f.cut()
			synctest.Wait()
			for range waiting {
				c.send(first, "a")
			}
			time.Sleep(50 * ms)
			want := fmt.Sprintf("HELLO 3, SUBSCRIBE wake, PING, ECHO #%d, ECHO #%d, EVALSHA ", waiting, waiting+3)
			if waiting < MaxQueue {
				want += "urgent"
			}
			got := f.received()
			if all := strings.Join(got, ", "); !strings.HasPrefix(all, want) {
				t.Errorf("%d wait: the server got %.200s, want %s", waiting, all, want)
			}
			if last := got[len(got)-1]; !strings.HasPrefix(last, "EVALSHA undo 1 a") {
				t.Errorf("%d wait: the last that the server got is %s", waiting, last)
			}
		})
	}
}

// Of commands that were sent together, only the unanswered ones fail.
func TestWhatIsAnsweredDoesNotFailLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := connect(t)
		stuck(f, c)
		f.answer("ECHO #2", silence)
		answered, unanswered := c.send(native), c.send(native)
		f.resume()
		synctest.Wait()
		f.cut()
		synctest.Wait()
		answered.wants("OK")
		unanswered.fails(ErrDown)
	})
}

// The first attempts follow soon, later ones about once a second if somebody wants the connection, otherwise every two
// or three seconds.
func TestReconnecting(t *testing.T) {
	for _, wanted := range []bool{true, false} {
		t.Run(fmt.Sprintf("wanted %t", wanted), func(t *testing.T) { reconnect(t, wanted) })
	}
}

func reconnect(t *testing.T, wanted bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f, c := connect(t)
		f.refuse(true)
		f.cut()
		least, most, soon := 20, 45, 3*time.Second
		if wanted {
			least, most, soon = 60, 130, time.Second
		}
		time.Sleep(time.Second)
		if got := f.attempts(); got < 6 {
			t.Errorf("%d attempts in a second", got)
		}
		for range 10 * 60 {
			time.Sleep(100 * ms)
			if wanted {
				c.Wanted()
			}
		}
		if got := f.attempts(); got < least || got > most {
			t.Errorf("%d attempts in a minute, want %d to %d", got, least, most)
		}
		if up, err := c.State(); up || !errors.Is(err, ErrDown) || !errors.Is(err, errRefused) {
			t.Errorf("connected %t, %v", up, err)
		}
		f.refuse(false)
		time.Sleep(soon)
		if up, err := c.State(); !up || err != nil {
			t.Errorf("connected %t, %v", up, err)
		}
		before := f.attempts()
		f.cut()
		time.Sleep(30 * ms)
		if f.attempts() != before+1 {
			t.Error("the first attempt after a success is late")
		}
	})
}

// Lost and Changed are called for every connection and every attempt, until Close.
func TestLostAndChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.refuse(true)
		config := f.config()
		var mu sync.Mutex
		var told []string
		tell := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, what)
		}
		config.OnDisconnect = func() { tell("lost") }
		var c *client
		config.OnChange = func() {
			up, err := c.State()
			switch {
			case up && err == nil:
				tell("up")
			case up:
				tell(err.Error())
			default:
				tell("down")
			}
		}
		wants := func(what ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if got, want := strings.Join(told, ", "), strings.Join(what, ", "); got != want {
				t.Errorf("told %q, want %q", got, want)
			}
			told = nil
		}
		c = &client{Conn: must(New("redis://fake", config))(t), t: t}
		if up, err := c.State(); up || !errors.Is(err, ErrDown) || err.Error() != "not connected yet" {
			t.Errorf("before the first attempt: connected %t, %v", up, err)
		}
		c.Start()
		wants("lost", "down")
		f.refuse(false)
		time.Sleep(20 * ms)
		wants("up")
		f.cut()
		wants("lost", "down")
		time.Sleep(100 * ms)
		wants("up")
		f.answer("EVALSHA", silence)
		c.send(first, "a")
		time.Sleep(300 * ms)
		wants("no answer within the node timeout")
		f.say(":1\r\n")
		wants("up")
		c.end()
		wants("lost")
	})
}

// Drain returns when all requests are answered. Meanwhile only undos are accepted.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := connect(t)
		f.answerAll("EVALSHA", silence)
		r, refused := c.send(first, "a"), c.send(undo, "b")
		drained := make(chan struct{})
		go func() {
			c.Drain(t.Context())
			close(drained)
		}()
		synctest.Wait()
		late, undone := c.send(first, "c"), c.send(undo, "d")
		late.fails(ErrClosed)
		synctest.Wait()
		if isClosed(drained) {
			t.Error("it does not wait for answers")
		}
		f.say(":1\r\n")
		f.say(busy)
		f.say(":1\r\n")
		synctest.Wait()
		r.wants("as usual")
		if !refused.isDone() || !undone.isDone() || !isClosed(drained) {
			t.Errorf("undos are done with %t, %t, drained %t", refused.isDone(), undone.isDone(), isClosed(drained))
		}
	})
}

// Drain sends postponed undos once more.
func TestDrainSendsWhatIsPostponed(t *testing.T) {
	for _, recovers := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f, c := connect(t)
			f.answerAll("EVALSHA", busy)
			again, over := c.send(undo, "a"), c.send(another, "b")
			synctest.Wait()
			f.received()
			over.end()
			if recovers {
				f.recover()
			}
			began := time.Now()
			c.Drain(t.Context())
			f.wants(t, "EVALSHA undo 1 a #0")
			if !again.isDone() || !over.isDone() || !time.Now().Equal(began) {
				t.Errorf("recovers %t: done with %t, %t after %s", recovers, again.isDone(), over.isDone(), time.Since(began))
			}
		})
	}
}

// With an unresponsive server, Drain waits no longer than its ctx, and Close does not wait.
func TestDrainingAndClosingAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := connect(t)
		f.answerAll("EVALSHA", silence)
		r, u := c.send(first, "a"), c.send(undo, "b")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 100*ms)
		defer cancel()
		began := time.Now()
		c.Drain(ctx)
		if took := time.Since(began); took != 100*ms {
			t.Errorf("drained for %s", took)
		}
		c.Stop()
		c.Close()
		if took := time.Since(began); took != 100*ms || f.attempts() != 1 {
			t.Errorf("closed after %s, %d connections", took, f.attempts())
		}
		r.fails(ErrDown)
		u.fails(ErrDown)
		c.Drain(t.Context()) // after Close
	})
	synctest.Test(t, func(t *testing.T) { // a connection that breaks leaves nothing to wait for
		f, c := connect(t)
		f.answerAll("EVALSHA", silence)
		c.send(undo, "a")
		synctest.Wait()
		f.refuse(true)
		time.AfterFunc(100*ms, f.cut)
		began := time.Now()
		if c.Drain(t.Context()); time.Since(began) != 100*ms {
			t.Errorf("drained for %s", time.Since(began))
		}
	})
	for _, stuckAt := range []string{"dial", "AUTH", "SCRIPT", "ECHO"} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			f.answerAll(stuckAt, silence)
			config := f.config()
			config.Scripts = append(config.Scripts, first.Script)
			if stuckAt == "dial" {
				config.Dial = nobody
			}
			c := start(t, "redis://:secret@fake", config)
			time.Sleep(100 * ms)
			began := time.Now()
			if c.Close(); !time.Now().Equal(began) {
				t.Errorf("stuck at %s: closed after %s", stuckAt, time.Since(began))
			}
		})
	}
}

// Close delivers what was written to a server that reads slowly, and fails the rest.
func TestCloseWhileTheServerReadsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := connect(t)
		stuck(f, c)
		r := c.send(first, "a")
		c.Close()
		r.fails(ErrDown)
		if r.fails(io.ErrClosedPipe); !r.isDone() {
			t.Error("not done with")
		}
		f.resume()
	})
}
