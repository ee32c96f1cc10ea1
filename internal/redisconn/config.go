package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/quorumlock/redlock/internal/lua"
)

// The reasons why a request has no reply.
var (
	ErrTimeout = errors.New("no answer within the node timeout")
	ErrDown    = errors.New("not connected")
	ErrBusy    = errors.New("too many unanswered requests")
	ErrClosed  = errors.New("closed")
	// ErrLate is an ErrTimeout of which the server is innocent: this process sent the request, or reads, too late.
	ErrLate error = timeoutError{"no answer within the node timeout: this process was late to ask or to read"}

	errConnecting = fmt.Errorf("%w yet", ErrDown)
)

// SilentError is why there is no connection to a server that can be reached and does not answer, because it is frozen,
// overloaded or behind a network that loses most of what it is given. It satisfies errors.Is for ErrTimeout.
type SilentError struct{ timeoutError }

// timeoutError is an ErrTimeout that says what took too long.
type timeoutError struct{ text string }

func (e timeoutError) Error() string { return e.text }
func (timeoutError) Unwrap() error   { return ErrTimeout }

func silent(text string) error { return SilentError{timeoutError{text}} }

// seconds formats a duration for humans, to a tenth of a second if it is that long.
func seconds(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return strconv.FormatFloat(d.Round(100*time.Millisecond).Seconds(), 'f', -1, 64) + " s"
}

// Config says how to reach the server and what to do with a new connection.
type Config struct {
	Timeout        time.Duration // for each request, counted from Message.Asked
	ConnectTimeout time.Duration // for each step of connecting; an unresponsive server gets a new connection after it
	TLS            *tls.Config   // nil: the system's roots, TLS 1.2
	Now            func() time.Time
	Scripts        []*lua.Script // loaded into the server with each new connection
	ExtraKey       string        // the last key of each command that has ExtraKey set

	// Dial replaces the net package's dialer and resolver. It may be nil.
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
	DialID any // the same for Configs with the same Dial. What is nil for a Dial that is not is no other's
	// Credentials is asked for user and password at each attempt to connect, in place of the URL, which must have none. An
	// empty password means no authentication. ctx ends after credentialsTimeout, or at Stop. It may be nil.
	Credentials func(ctx context.Context, addr string) (user, password string, err error)
	Handshake   func(do Do) error // runs with each new connection before that takes requests; an error refuses the server
	// Check looks now and then whether the server is still the one of the handshake: see CheckSoon. It runs in a goroutine
	// of its own, never twice at a time. ctx is done when the connection has ended. An error ends it. Check may be nil.
	Check        func(ctx context.Context) error
	CheckEvery   time.Duration // the mean interval between two checks, which varies at random from half to 1.5 times that
	OnDisconnect func()        // runs after each connection that ended and after each failed attempt to connect
	// OnConnect runs when there is a new connection, before OnChange, and must not wait for an answer. What it sends by
	// Ask goes ahead of the requests that waited for the connection.
	OnConnect func()
	OnChange  func() // runs after each change of State; the first run tells the outcome of the first attempt to connect
	// Explain turns an error reply into the type that users see. command is the refused command, "" if unknown.
	Explain func(err error, command string) error
}

// noReply returns why there is no connection to a server that has accepted one.
func (c *Config) noReply() error {
	return silent("it accepts connections, but did not answer for " + seconds(c.ConnectTimeout))
}

// lateness is by how much a timer fires too late if this process was not scheduled.
func (c *Config) lateness() time.Duration { return c.Timeout / 8 }

// Do sends commands and waits for the replies. An error reply is a redis.Error among them; err says why there are none.
type Do func(commands ...[]any) (replies []any, err error)

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// idleTimer returns a timer that runs f each time it was set.
func idleTimer(f func()) *time.Timer {
	t := time.AfterFunc(time.Hour, f)
	t.Stop()
	return t
}

// wake wakes whoever waits at a channel with room for one.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
