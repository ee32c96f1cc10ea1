package holding_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
)

// What the holder's process is told, by its environment.
const (
	holderNodes = "REDLOCK_TEST_HOLDER_NODES"
	holderStore = "REDLOCK_TEST_HOLDER_STORE"
)

const (
	holderName = "stock"
	holderTTL  = time.Second
)

// register is the demo resource: a value that refuses whoever comes with a
// token smaller than the largest it has seen.
type register struct {
	mu      sync.Mutex // protects the following fields
	token   int64
	value   string
	refused int
}

func (r *register) write(token int64, value string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if token < r.token {
		r.refused++
		return false
	}
	r.token, r.value = token, value
	return true
}

func (r *register) read() (int64, string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.token, r.value
}

// message is what the holder's process says: a write to the register, or how its hold ended.
type message struct {
	kind  string    // "write": through its context; "late": in spite of it; "end"
	token int64     //
	at    time.Time // when it was sure, a moment before it looked at its context
	text  string    // "end": why
}

func (m message) String() string {
	return fmt.Sprintf("%s %d %d %s\n", m.kind, m.token, m.at.UnixNano(), strings.ReplaceAll(m.text, " ", "_"))
}

// remote is the register at the other end of a connection.
type remote struct {
	conn    net.Conn
	replies *bufio.Reader
}

// send sends a message unless ctx is done, as everything does that takes a context.
func (r remote) send(ctx context.Context, m message) (accepted bool, err error) {
	m.at = time.Now()
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if _, err := fmt.Fprint(r.conn, m); err != nil {
		return false, err
	}
	reply, err := r.replies.ReadString('\n')
	return reply == "ok\n", err
}

// runHolder is main of the process that is going to be stopped: it writes
// through lock.Context as long as that lets it, and then once more.
func runHolder() int {
	err := func() error {
		// No restart guard: the masters have just been started.
		l, err := redlock.New(strings.Split(os.Getenv(holderNodes), ","), redlock.WithTTL(holderTTL),
			redlock.WithNodeTimeout(5*time.Second), redlock.WithRestartGuard(0))
		if err != nil {
			return err
		}
		conn, err := net.Dial("tcp", os.Getenv(holderStore))
		if err != nil {
			return err
		}
		store := remote{conn, bufio.NewReader(conn)}
		k, err := l.Lock(context.Background(), holderName)
		if err != nil {
			return err
		}
		ctx, cancel := k.Context(context.Background())
		defer cancel()
		for {
			_, err := store.send(ctx, message{kind: "write", token: k.Token()})
			if errors.Is(err, redlock.ErrLost) {
				break
			}
			if err != nil {
				return err
			}
			time.Sleep(time.Millisecond)
		}
		<-k.Done() // else it hangs, and the test fails
		ignoring := context.Background()
		if _, err := store.send(ignoring, message{kind: "late", token: k.Token()}); err != nil {
			return err
		}
		_, err = store.send(ignoring, message{kind: "end", token: k.Token(), text: context.Cause(ctx).Error()})
		return err
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// holderProcess is a process that holds the lock and writes to the register.
type holderProcess struct {
	*exec.Cmd
	messages chan message // closed when the process has said all
}

// startHolder starts one. What it writes goes to the register.
func startHolder(t *testing.T, nodes []*masters.Node, r *register) holderProcess {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	fleet.Must(t, err)
	self, err := os.Executable()
	fleet.Must(t, err)
	p := holderProcess{exec.CommandContext(t.Context(), self), make(chan message, 1<<16)}
	p.Env = append(os.Environ(), holderNodes+"="+strings.Join(masters.URLs(nodes), ","), holderStore+"="+l.Addr().String())
	p.Stderr = os.Stderr
	fleet.Must(t, p.Start())
	go func() { // until the process ends, or the test does, which kills it
		defer close(p.messages)
		defer func() { _ = l.Close() }()
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			var m message
			var at int64
			_, _ = fmt.Sscan(lines.Text(), &m.kind, &m.token, &at, &m.text) // only "end" has a text
			m.at = time.Unix(0, at)
			reply := "ok\n"
			if m.kind != "end" && !r.write(m.token, m.kind) {
				reply = "refused\n"
			}
			p.messages <- m
			_, _ = fmt.Fprint(conn, reply)
		}
	}()
	return p
}

// The scenario of the literature, with the process really stopped: nothing in
// it can run, neither the library's timer nor the garbage collector. It goes on
// right where it was, between two writes, when somebody else holds the lock.
func TestAStoppedHolderWritesNothingAfterItsEnd(t *testing.T) {
	t.Parallel()
	f := fleet.Start(t, 5)
	through, inFlight, late := 0, 0, 0
	rounds := sized(3, 50)
	for range rounds {
		r := &register{}
		p := startHolder(t, f.Nodes, r)
		first := <-p.messages
		for range 20 {
			if m := <-p.messages; m.kind != "write" {
				t.Fatalf("the holder said %q before it was stopped: did the machine stand still for its TTL?", m)
			}
		}
		stopped := time.Now()
		fleet.Must(t, p.Process.Signal(syscall.SIGSTOP))

		l := f.Locker(t)
		k := lock(t, l, holderName) // after the TTL: the stopped holder renews nothing
		if k.Token() <= first.token {
			fleet.Unsafe(t, "the successor's token is %d, the stopped holder's %d", k.Token(), first.token)
		}
		for drained := false; !drained; { // what it had said before
			select {
			case <-p.messages:
			case <-time.After(20 * time.Millisecond):
				drained = true
			}
		}
		if !r.write(k.Token(), "successor") {
			t.Error("the successor is refused")
		}
		resumed := time.Now()
		fleet.Must(t, p.Process.Signal(syscall.SIGCONT))

		ended := false
		for m := range p.messages {
			switch {
			case m.kind == "late":
				late++
			case m.kind == "end":
				ended = true
				if !strings.Contains(m.text, "lost") {
					t.Errorf("the hold ended with %q, want %v", m.text, redlock.ErrLost)
				}
			case m.at.Before(resumed):
				inFlight++ // it had looked before it was stopped: nothing but the token helps
			default:
				through++
				fleet.Unsafe(t, "a write went through lock.Context %v after the process was resumed", m.at.Sub(resumed))
			}
		}
		fleet.Must(t, p.Wait())
		if !ended || stopped.After(resumed) {
			t.Error("the holder does not say how its hold ended")
		}
		if token, value := r.read(); value != "successor" || token != k.Token() {
			fleet.Unsafe(t, "the register has %q with token %d: the successor's work was overwritten", value, token)
		}
		if r.refused == 0 {
			t.Error("the register refused nothing")
		}
		fleet.Must(t, k.Unlock(t.Context()))
	}
	t.Logf("%d holders stopped past their validity and resumed: %d writes through lock.Context after that, "+
		"%d already past the check and refused, %d sent in spite of it and refused",
		rounds, through, inFlight, late)
}
