package redisconn

import (
	"strings"
	"testing"
	"time"
)

// An undo that fails with a transient error is sent again, four times a second, until nothing is left to undo.
func TestAnUndoThatIsRefusedIsSentAgain(t *testing.T) {
	for _, c := range []struct {
		command *Command
		refusal string
		sent    int // in a second
	}{
		{undo, busy, 4},
		{undo, "-LOADING Redis is loading the dataset in memory\r\n", 4},
		{undo, "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n", 4},
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
