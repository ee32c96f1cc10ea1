package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/resp"
)

const ms = time.Millisecond

// fake is a Redis server that a test scripts. It records the commands that it gets and answers as the test
// says, otherwise with the usual result.
type fake struct {
	gate chan struct{} // full while nothing is read

	mu       sync.Mutex
	got      []string // commands, in order
	plan     []answer
	down     bool // refuses connections
	modern   bool // speaks RESP3, otherwise it does not know HELLO
	dialled  int  // how often
	writes   int  // system calls of its clients, after the first PING
	sessions []*session
}

// answer is the reply to commands with a prefix.
type answer struct {
	command, reply string
	always         bool // to all of them, otherwise to the next one
}

// Replies that are none.
const (
	silence = ""
	hangUp  = "hang up"
	reset   = "hang up, TCP"
)

const (
	pong     = "*2\r\n$4\r\npong\r\n$0\r\n\r\n"
	noScript = "-NOSCRIPT No matching script. Please use EVAL.\r\n"
	busy     = "-BUSY Redis is busy running a script.\r\n"
	readOnly = "-READONLY You can't write against a read only replica.\r\n"
	noPerm   = "-NOPERM this user has no permissions\r\n"
)

// session is one connection to the fake.
type session struct {
	net.Conn
	out    chan string
	modern bool // speaks RESP3
}

func newFake() *fake { return &fake{gate: make(chan struct{}, 1)} }

// answer sets the replies to the next commands with that prefix, one each.
func (f *fake) answer(command string, replies ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, reply := range replies {
		f.plan = append(f.plan, answer{command, reply, false})
	}
}

// answerAll sets the reply to all commands with that prefix, until recover is called.
func (f *fake) answerAll(command, reply string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plan = append(f.plan, answer{command, reply, true})
}

// recover makes the fake answer everything with the usual result.
func (f *fake) recover() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plan = nil
}

// say sends a reply without a request, over the newest connection.
func (f *fake) say(reply string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sessions[len(f.sessions)-1].out <- reply
}

// upgrade makes the fake speak RESP3 from the next connection on, or not any more.
func (f *fake) upgrade(modern bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.modern = modern
}

// refuse makes the fake refuse connections from now on, or accept them again.
func (f *fake) refuse(down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = down
}

// cut ends all connections.
func (f *fake) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sessions {
		_ = s.Close()
	}
}

// leave ends all connections, and makes the fake refuse the attempt that follows, and all others.
func (f *fake) leave() {
	f.refuse(true)
	f.cut()
	time.Sleep(15 * ms)
}

// pause makes the server read nothing more, so that writes block.
func (f *fake) pause() { f.gate <- struct{}{} }

func (f *fake) resume() { <-f.gate }

// received returns the commands since its last call.
func (f *fake) received() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	got := f.got
	f.got = nil
	return got
}

func (f *fake) attempts() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dialled
}

// wantsAttempts checks how often a client has tried to connect so far.
func (f *fake) wantsAttempts(t *testing.T, want int) {
	t.Helper()
	synctest.Wait()
	cases.Equals(t, f.attempts(), want, "attempts to connect")
}

// wants checks the commands since the last check.
func (f *fake) wants(t *testing.T, commands ...string) {
	t.Helper()
	synctest.Wait()
	if got := f.received(); !slices.Equal(got, commands) {
		t.Errorf("the server got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(commands, "\n\t"))
	}
}

var errRefused = errors.New("connection refused")

// dial is a Config.Dial that leads to the fake.
func (f *fake) dial(context.Context, string, string) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dialled++; f.down {
		return nil, errRefused
	}
	ours, theirs := net.Pipe()
	f.accept(theirs, &gated{theirs, f.gate})
	return &counted{ours, f}, nil
}

// nobody is a Config.Dial that never connects.
func nobody(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// undated is a connection without deadlines for reads, which redigo sets before each: a pipe refuses that as soon as
// its other end is closed, although what it has brought is not used up.
type undated struct{ net.Conn }

func (undated) SetReadDeadline(time.Time) error { return nil }

// accept serves a connection. It is called with mu held.
func (f *fake) accept(conn, from net.Conn) {
	s := &session{Conn: conn, out: make(chan string, 1<<16)}
	f.sessions = append(f.sessions, s)
	go func() {
		for reply := range s.out {
			if reply == hangUp {
				break
			}
			if _, err := io.WriteString(s, reply); err != nil {
				break
			}
		}
		_ = s.Close()
	}()
	go func() {
		defer func() {
			f.mu.Lock() // see say
			defer f.mu.Unlock()
			close(s.out)
		}()
		defer s.Close()
		r := redis.NewConn(undated{from}, 0, 0) // a command looks like a reply
		for {
			command, err := redis.Strings(r.Receive())
			if err != nil {
				return
			}
			switch reply := f.react(s, command); reply {
			case silence:
			case hangUp:
				time.Sleep(time.Millisecond) // until the client reads: a pipe returns another error to a later read
				return
			case reset:
				_ = s.Conn.(*net.TCPConn).SetLinger(0)
				return
			default:
				f.mu.Lock()
				s.out <- reply
				f.mu.Unlock()
			}
		}
	}()
}

// listen serves on a socket, over TLS if there is a config, and returns its address.
func (f *fake) listen(t *testing.T, config *tls.Config) string {
	t.Helper()
	l := cases.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	if config != nil {
		l = tls.NewListener(l, config)
	}
	f.serve(t, l)
	return l.Addr().String()
}

// serve accepts connections until the test ends.
func (f *fake) serve(t *testing.T, l net.Listener) {
	t.Helper()
	t.Cleanup(func() { _ = l.Close(); f.cut() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.dialled++
			f.accept(conn, conn)
			f.mu.Unlock()
		}
	}()
}

// counted counts writes.
type counted struct {
	net.Conn
	of *fake
}

func (c *counted) Write(b []byte) (int, error) {
	c.of.mu.Lock()
	c.of.writes++
	c.of.mu.Unlock()
	return c.Conn.Write(b)
}

// gated reads no more than a byte while the gate is full. On a pipe that is the beginning of a write, which
// blocks then.
type gated struct {
	net.Conn
	gate chan struct{}
}

func (g *gated) Read(b []byte) (int, error) {
	if _, err := g.Conn.Read(b[:1]); err != nil {
		return 0, err
	}
	g.gate <- struct{}{}
	<-g.gate
	n, err := g.Conn.Read(b[1:])
	return 1 + n, err
}

// named replaces sources and SHAs of the tests' scripts by their names.
var named = func() *strings.Replacer {
	var pairs []string
	for name, k := range map[string]*Command{
		"first": first, "second": second, "third": third, "undo": undo, "another": another, "spare": spare, "urgent": urgent,
	} {
		pairs = append(pairs, k.Script.SHA, name, k.Script.Source, name)
	}
	return strings.NewReplacer(pairs...)
}()

// react records a command and returns the reply.
func (f *fake) react(s *session, command []string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	text := named.Replace(strings.Join(command, " "))
	if f.modern || command[0] != "HELLO" {
		f.got = append(f.got, text)
	}
	for i, a := range f.plan {
		if strings.HasPrefix(text, a.command) {
			if !a.always {
				f.plan = slices.Delete(f.plan, i, i+1)
			}
			return a.reply
		}
	}
	switch command[0] {
	case "EVALSHA", "EVAL": // every key has the usual result
		keys, _ := strconv.Atoi(command[2])
		if slices.Contains(command[3:3+keys], "extra") {
			keys--
		}
		return fmt.Sprintf(":%d\r\n", keys)
	case "HELLO":
		if s.modern = f.modern; s.modern {
			return "%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$5\r\nproto\r\n:3\r\n"
		}
		return "-ERR unknown command 'HELLO', with args beginning with: '3' \r\n"
	case "SUBSCRIBE":
		confirmed := fmt.Sprintf("*3\r\n$9\r\nsubscribe\r\n$%d\r\n%s\r\n:1\r\n", len(command[1]), command[1])
		if s.modern {
			return asPush(confirmed)
		}
		return confirmed
	case "PING":
		if len(command) > 1 { // the form for subscribers
			return pong
		}
		return "+PONG\r\n"
	default:
		return "+OK\r\n"
	}
}

// client is a Conn to a fake, and the requests sent over it.
type client struct {
	*Conn
	t      *testing.T
	ago    time.Duration // for how long the time-out of a request has run when it is sent
	mu     sync.Mutex
	rounds []*round
}

// round is the Round of one request. It fails the test where the Conn breaks a promise: one Reply for each request; one
// Done for it and one for each Retain, the last of them after the Reply; no mutex held during either.
type round struct {
	Request
	of *client

	mu         sync.Mutex
	over       bool
	said       string // the reply or the error
	err        error
	replies    int
	held, done int
}

// config is the Config of most tests.
func (f *fake) config() Config {
	return Config{
		Timeout: 250 * time.Millisecond, ConnectTimeout: time.Second, Dial: f.dial, Now: time.Now, ExtraKey: "extra",
	}
}

// start returns a client that begins to connect, and that the test's cleanup ends. told gets each new State.
func start(t *testing.T, url string, config Config, told ...func(up bool, err error)) *client {
	t.Helper()
	c := &client{t: t}
	for _, tell := range told {
		config.OnChange = func() { tell(c.State()) }
	}
	c.Conn = cases.Must(New(url, config))(t)
	c.Start()
	t.Cleanup(c.end)
	return c
}

// setup prepares a fake, and the Config of the client that is about to connect to it.
type setup func(f *fake, config *Config)

// modern makes the fake speak RESP3.
func modern(f *fake, _ *Config) { f.modern = true }

// answers plans replies, one to each of the commands.
func answers(command string, replies ...string) setup {
	return func(f *fake, _ *Config) { f.answer(command, replies...) }
}

// answersAll plans the reply to all of these commands.
func answersAll(command, reply string) setup {
	return func(f *fake, _ *Config) { f.answerAll(command, reply) }
}

// loads has the client load scripts.
func loads(commands ...*Command) setup {
	return func(_ *fake, config *Config) {
		for _, k := range commands {
			config.Scripts = append(config.Scripts, k.Script)
		}
	}
}

// echoes is a setup with a handshake.
func echoes(_ *fake, config *Config) { config.Handshake = echo }

// echo is the usual Handshake.
func echo(do Do) error {
	_, err := do([]any{"ECHO", "hello"})
	return err
}

// connect returns a fake and a client that is connected to it, in virtual time.
func connect(t *testing.T, prepare ...setup) (*fake, *client) {
	t.Helper()
	f := newFake()
	config := f.config()
	for _, prepare := range prepare {
		prepare(f, &config)
	}
	c := start(t, "redis://fake", config)
	synctest.Wait()
	return f, c
}

// online runs a test in virtual time, with a client that is connected.
func online(t *testing.T, test func(t *testing.T, f *fake, c *client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f, c := connect(t)
		test(t, f, c)
	})
}

// settle waits until all that can happen now has happened, unless the client uses sockets.
func (c *client) settle() {
	if c.config.Dial != nil {
		synctest.Wait()
	}
}

// The values of State.
const up, down = true, false

// is checks the State, and that the error is for that reason and says that. A server that can answer has none.
func (c *client) is(connected bool, reason error, says ...string) {
	c.t.Helper()
	c.settle()
	got, err := c.State()
	unsaid := func(text string) bool { return !strings.Contains(err.Error(), text) }
	if got != connected || !errors.Is(err, reason) || err != nil && slices.ContainsFunc(says, unsaid) {
		c.t.Errorf("connected %t, %v; want %t, %v %q", got, err, connected, reason, says)
	}
}

// takes checks how long a call takes, in virtual time.
func takes(t *testing.T, want time.Duration, call func()) {
	t.Helper()
	begun := time.Now()
	if call(); time.Since(begun) != want {
		t.Errorf("it took %s, want %s", time.Since(begun), want)
	}
}

// end closes the client, and checks that each request has had its Reply and Done. Undos that the Conn kept to the end
// have had no Done.
func (c *client) end() {
	c.Close()
	open := 0
	for _, r := range c.rounds {
		r.mu.Lock()
		cases.Equals(c.t, r.replies, 1, "request %d: replies", r.Node)
		open += 1 + r.held - r.done
		r.mu.Unlock()
	}
	if kept := c.Backlog(); open != kept {
		c.t.Errorf("%d calls of Done are missing, and the Conn has %d requests still", open, kept)
	}
}

// send sends a request about keys.
func (c *client) send(k *Command, keys ...string) *round {
	r, _ := c.offer(k, keys...)
	return r
}

// offer is send, and returns the result of Send.
func (c *client) offer(k *Command, keys ...string) (_ *round, taken bool) {
	c.mu.Lock()
	r := &round{Request: *about(k, keys...), of: c}
	r.Round, r.Node, r.Asked = r, len(c.rounds), c.config.Now().Add(-c.ago)
	if k.Script == nil {
		r.Native = resp.AppendBulk([]byte("*2\r\n$4\r\nECHO\r\n"), fmt.Sprint("#", r.Node))
	}
	c.rounds = append(c.rounds, r)
	c.mu.Unlock()
	return r, c.Send(&r.Request)
}

// Reply implements Round.
func (r *round) Reply(node int, reply any, err error) {
	r.of.State() // it would wait for ever if the mutex were held
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.replies++; r.replies > 1 || r.done == 1+r.held || node != r.Node {
		r.of.t.Errorf("request %d: reply %d (%v, %v), to %d; done %d times", r.Node, r.replies, reply, err, node, r.done)
	}
	if r.said, r.err = fmt.Sprintf("%s", reply), err; err != nil {
		r.said = err.Error()
	} else if reply == nil {
		r.said = "as usual"
	}
}

// Over implements Round.
func (r *round) Over() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.over
}

// Retain implements Round.
func (r *round) Retain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held++; r.done >= r.held {
		r.of.t.Errorf("request %d: held when it was done with", r.Node)
	}
}

// Done implements Round.
func (r *round) Done() {
	r.of.State()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done++; r.done > 1+r.held || r.done == 1+r.held && r.replies == 0 {
		r.of.t.Errorf("request %d: %d calls of Done, held %d times, %d replies", r.Node, r.done, r.held, r.replies)
	}
}

// end makes the round over: no caller waits for it, or nothing is left to undo.
func (r *round) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
}

// wants checks what the request has had so far: a reply, an error, or "".
func (r *round) wants(said string) {
	r.of.t.Helper()
	r.of.settle()
	r.mu.Lock()
	defer r.mu.Unlock()
	cases.Equals(r.of.t, r.said, said, "request %d", r.Node)
}

// fails checks that the request has failed for that reason.
func (r *round) fails(reason error) {
	r.of.t.Helper()
	r.of.settle()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !errors.Is(r.err, reason) {
		r.of.t.Errorf("request %d: got %q, %v, want %v", r.Node, r.said, r.err, reason)
	}
}

// isDone reports whether the Conn has released the request.
func (r *round) isDone() bool {
	r.of.settle()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.done == 1+r.held
}

// isTold reports whether the request has had its Reply.
func (r *round) isTold() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.replies > 0
}

func patient() Config {
	return Config{Timeout: 20 * time.Second, ConnectTimeout: 20 * time.Second, Now: time.Now}
}
