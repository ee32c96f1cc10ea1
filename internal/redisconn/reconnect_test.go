package redisconn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/redlock/internal/cases"
)

// Undos are kept for a server that is away, as long as they have something to undo.
func TestAnUndoWaitsForTheServer(t *testing.T) {
	online(t, func(t *testing.T, f *fake, c *client) {
		f.leave()
		kept, over, lost := c.send(undo, "a"), c.send(undo, "b"), c.send(first, "c")
		for _, r := range c.rounds {
			r.fails(ErrDown)
		}
		over.end()
		time.Sleep(10 * time.Second)
		if c.backlog(1); !lost.isDone() || kept.isDone() || !over.isDone() {
			t.Error("not the one undo is kept")
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
	online(t, func(t *testing.T, f *fake, c *client) {
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
		if c.backlog(0); !over.isDone() {
			t.Error("what is over is not done with")
		}
	})
}

// A connection that breaks is made anew at once if the server is well. What is sent meanwhile waits for that: within
// its time-out, in order, and for no outage.
func TestARequestWaitsForTheNextConnection(t *testing.T) {
	const noAuth = "-NOAUTH Authentication required.\r\n"
	for _, c := range []struct {
		name  string
		when  func(f *fake, c *client) // before it breaks
		after time.Duration            // what is sent then was answered, or has failed
		want  error                    // nil: it was answered
	}{
		{"well", func(*fake, *client) {}, 15 * ms, nil},
		{"broken once more in the handshake", func(f *fake, _ *client) { f.answer("SCRIPT", hangUp) }, 60 * ms, nil},
		{"broken twice in the handshake", func(f *fake, _ *client) { f.answer("SCRIPT", hangUp, hangUp) }, 60 * ms, ErrDown},
		{"refused", func(f *fake, _ *client) { f.refuse(true) }, 15 * ms, ErrDown},
		{"refused by its handshake", func(f *fake, _ *client) { f.answer("SCRIPT", noAuth, noAuth) }, 15 * ms, ErrDown},
		{"silent in the handshake", func(f *fake, _ *client) { f.answer("SCRIPT", silence) }, 250 * ms, ErrTimeout},
		{"slow in the handshake", func(f *fake, _ *client) {
			f.answer("SCRIPT", silence)
			time.AfterFunc(300*ms, func() { f.say("*1\r\n:1\r\n") })
		}, 250 * ms, ErrTimeout},
		{"closed", func(_ *fake, c *client) { time.AfterFunc(ms, c.Stop) }, ms, ErrDown},
		{"replaced for its silence", func(f *fake, c *client) {
			f.answer("ECHO", silence)
			c.send(native)
			time.Sleep(250*ms + time.Second)
		}, 0, ErrDown},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, client := connect(t, loads(first))
				if c.when(f, client); c.after > 0 {
					f.cut()
				}
				synctest.Wait()
				f.received()
				r, u := client.send(first, "a"), client.send(undo, "a")
				over := client.send(undo, "b")
				over.end()
				client.send(native).fails(ErrDown)
				time.Sleep(c.after)
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
				got := slices.DeleteFunc(f.received(), func(command string) bool { return command[:4] != "EVAL" })
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
				if !slices.Equal(got, want) {
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
			f, c := connect(t, func(_ *fake, config *Config) {
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
	online(t, func(_ *testing.T, f *fake, c *client) {
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
	for _, w := range []struct {
		wanted      bool
		least, most int // attempts in a minute
		soon        time.Duration
	}{{true, 60, 130, time.Second}, {false, 20, 45, 3 * time.Second}} {
		online(t, func(t *testing.T, f *fake, c *client) {
			f.refuse(true)
			f.cut()
			time.Sleep(time.Second)
			if got := f.attempts(); got < 6 {
				t.Errorf("%d attempts in a second", got)
			}
			for range 10 * 60 {
				time.Sleep(100 * ms)
				if w.wanted {
					c.Wanted()
				}
			}
			if got := f.attempts(); got < w.least || got > w.most {
				t.Errorf("%+v: %d attempts", w, got)
			}
			c.is(down, ErrDown)
			c.is(down, errRefused)
			f.refuse(false)
			time.Sleep(w.soon)
			c.is(up, nil)
			before := f.attempts()
			f.cut()
			time.Sleep(30 * ms)
			f.wantsAttempts(t, before+1) // the first after a success comes soon
		})
	}
}

// OnDisconnect and OnChange are called for every connection and every attempt, until Close.
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
		if up, err := cases.Must(New("redis://fake", config))(t).State(); up || err.Error() != "not connected yet" {
			t.Errorf("before the first attempt: connected %t, %v", up, err)
		}
		c := start(t, "redis://fake", config, func(up bool, err error) {
			switch {
			case up && err == nil:
				tell("up")
			case up:
				tell(err.Error())
			default:
				tell("down")
			}
		})
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
		c.Close()
		wants("lost")
	})
}

// What is asked before the first attempt to connect has ended waits for it, and fails with its reason.
func TestTheFirstErrorHasTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sealed := errors.New("the vault is sealed")
		config := newFake().config()
		config.Credentials = func(ctx context.Context, _ string) (string, string, error) {
			return "", "", errors.Join(sealed, sleep(ctx, config.Timeout/2, nil))
		}
		r := start(t, "redis://fake", config).send(first, "job")
		time.Sleep(config.Timeout)
		r.fails(sealed)
	})
}

// A connection that lasted for a while and was closed is about to return. One that is broken at once, again and again,
// is an outage, and so is one that is refused.
func TestWhatReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		var returned []bool
		var c *client
		c = start(t, "redis://fake", f.config(), func(up bool, _ error) {
			if !up {
				returned = append(returned, c.Returns())
			}
		})
		for _, lasted := range []time.Duration{2 * time.Second, 500 * ms} {
			time.Sleep(lasted)
			f.cut()
			time.Sleep(50 * ms)
		}
		if c.is(up, nil); !slices.Equal(returned, []bool{true, false}) {
			t.Errorf("got %v, want true, and false", returned)
		}
	})
}

// Where nobody answers, attempts become rare, unless somebody wants the connection, or something is to be undone.
func TestPausesAfterSilence(t *testing.T) {
	for _, c := range []struct {
		what        string
		least, most int32
	}{{"nothing", 8, 16}, {"wanted", 30, 60}, {"undo", 30, 60}} {
		synctest.Test(t, func(t *testing.T) {
			var failed atomic.Int32
			_, k := connect(t, func(_ *fake, config *Config) {
				config.Dial, config.OnDisconnect = nobody, func() { failed.Add(1) }
			})
			if c.what == "undo" {
				k.send(undo, "a")
			}
			for range 600 {
				time.Sleep(100 * ms)
				if c.what == "wanted" {
					k.send(first, "a")
				}
			}
			if got := failed.Load(); got < c.least || got > c.most {
				t.Errorf("%s: %d attempts in a minute, want %d to %d", c.what, got, c.least, c.most)
			}
		})
	}
}
