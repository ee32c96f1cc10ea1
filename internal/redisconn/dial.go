package redisconn

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/endpoint"
	"github.com/quorumlock/redlock/internal/resp"
)

// wire is one open connection.
type wire struct {
	patience *patience           // of the handshake; nil: it is over
	unwatch  func() bool         // ends that the wire is closed with the handshake's context; false: it was closed
	first    endpoint.FirstBytes // of the connection, through which the decoder reads
	net      net.Conn            // the same connection, for what is sent
	decoder  *resp.Decoder       // owned by the reader
	encoder  resp.Encoder        // owned by the writer
	resp3    bool                // the protocol; false: RESP2
	flow     flow                // of what is no reply; owned by the reader
}

// exchange sends commands over a connection that takes no requests yet, and returns the replies that have come.
func (w *wire) exchange(commands ...[]any) ([]any, error) {
	for _, command := range commands {
		w.encoder.Command(command...)
	}
	err := w.encoder.Flush(w.net)
	got, replies := make([]resp.Reply, 0, len(commands)), make([]any, 0, len(commands))
	for err == nil && len(replies) < len(commands) {
		got, err = w.decoder.Take(got[:0])
		for _, r := range got {
			if _, ok := r.Value.(resp.Push); ok { // nothing is subscribed to yet
				err = cmp.Or(err, w.flow.count("", false, w.patience.config.Now()))
				continue
			}
			if r.Err != nil {
				r.Value = r.Err
			}
			replies = append(replies, r.Value)
		}
	}
	if err == nil && len(replies) > len(commands) {
		err = errUnasked
	}
	if err == nil {
		w.patience.answered()
		return replies, nil
	}
	if w.patience.over.Load() {
		err = w.patience.config.noReply()
	}
	return replies, fmt.Errorf("at %s: %w", commands[min(len(replies), len(commands)-1)][0], err)
}

func (w *wire) do(commands ...[]any) ([]any, error) {
	replies, err := w.exchange(commands...)
	if err == nil {
		return replies, nil
	}
	if n := len(replies); n > 0 {
		if said, ok := replies[n-1].(redis.Error); ok {
			err = said // the server said why it would hang up: too many clients
		}
	}
	return nil, err
}

func (w *wire) logIn(as login, db int) error {
	var commands [][]any
	switch {
	case as.password == "":
	case as.user == "":
		commands = append(commands, []any{"AUTH", as.password})
	default:
		commands = append(commands, []any{"AUTH", as.user, as.password})
	}
	if db != 0 {
		commands = append(commands, []any{"SELECT", db})
	}
	replies, err := w.do(commands...) // none: it counts as an answer that the connection was accepted
	for _, r := range replies {
		if said, refused := r.(redis.Error); refused {
			return said
		}
	}
	return err
}

// flow is how much a server says that is no usual reply. What nobody asked for is no sign of life, and reading it takes
// time that the other connections need: so a server that says too much of it loses the connection.
type flow struct {
	since                 time.Time
	messages, rest, large int // since then; large: in bytes
}

// The most that a server may say within a second.
const (
	maxMessages = 1 << 15 // on the channel; a busy fleet has a few thousand
	maxLarge    = 1 << 26 // bytes of messages, of large replies, and of values that are too long to be a lock's
	maxRest     = 1 << 6  // of anything else, which a proxy may have
)

var (
	errUnasked = errors.New("a reply without a request")
	errFlood   = errors.New("it says more that nobody asked for than can be read")
	errLarge   = errors.New("it replies with more than 64 MiB a second: the key of a lock may be another application's")
)

// count counts what is no reply: a message, if ok, or something else.
func (f *flow) count(message string, ok bool, now time.Time) error {
	if !ok {
		return f.add(&f.rest, 1, maxRest, now)
	}
	return cmp.Or(f.add(&f.messages, 1, maxMessages, now), f.add(&f.large, len(message), maxLarge, now))
}

func (f *flow) add(to *int, n, most int, now time.Time) error {
	if now.Sub(f.since) >= time.Second {
		*f = flow{since: now}
	}
	if *to += n; *to > most {
		return errFlood
	}
	return nil
}

func (w *wire) take(all []resp.Reply, now func() time.Time) ([]resp.Reply, error) {
	all, err := w.decoder.Take(all)
	if n := w.decoder.Large; n > 0 && err == nil {
		w.decoder.Large = 0
		if w.flow.add(&w.flow.large, n, maxLarge, now()) != nil {
			err = errLarge
		}
	}
	return all, err
}

// isBreach reports whether what the server says is not the protocol. It may do so over each connection, at once, and a
// handshake has a price: so such a server gets the pauses of one that cannot be reached.
func isBreach(err error) bool {
	return errors.Is(err, resp.ErrBadReply) || errors.Is(err, errUnasked) ||
		errors.Is(err, errFlood) || errors.Is(err, errLarge)
}

// text returns a string of a reply, "" for anything else.
func text(value any) string {
	s, _ := redis.String(value, nil)
	return s
}

// close may be called more than once, by any goroutine. Everything written still reaches the server.
func (w *wire) close() { _ = w.net.Close() }

// abort resets the connection: the kernel discards what it has not sent yet. Otherwise this would reach the server
// after requests sent over the next connection: an extension after the release.
func (w *wire) abort() {
	conn := w.net
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn() // without a close_notify alert, for which the send buffer may have no room
	}
	if tcp, ok := conn.(interface{ SetLinger(sec int) error }); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// dialer makes connections to one server.
type dialer struct {
	url     endpoint.URL
	config  *Config
	network *network
	address *address        // set before the first attempt
	ctx     context.Context // ends all attempts, and the inquiries

	why func() error                          // tells why there is no connection, or no answer; nil: all is well
	say func(err error, awhile time.Duration) // takes the reason why there is none yet, while others are waited for

	remote     atomic.Pointer[string] // the address to which the last connection led; nil: that is not known
	plainUntil time.Time              // until then no HELLO is sent; owned by the goroutine that calls connect

	asking  sync.Mutex // guards inquiry; the last mutex to be locked
	inquiry *inquiry   // for credentials, under way or not used yet; nil: none
}

// network is what Config.Dial stands in for.
type network struct {
	lookUp finder
	reach  func(ctx context.Context, network, address string) (net.Conn, error)
}

var usual = network{net.DefaultResolver.LookupHost, new(net.Dialer).DialContext}

// addressKey returns the key of the dialer's address; shared is false if no other dialer can have the same.
func (d *dialer) addressKey() (key addressKey, shared bool) {
	shared = d.config.Dial == nil || d.config.DialID != nil
	return addressKey{d.config.DialID, d.url.Network, d.url.Address}, shared
}

type login struct{ user, password string }

// establish opens a connection and prepares it, in its turn. Before that it asks for the credentials and looks up the
// name, which may take long and must not take other handshakes' turns. prepare's context ends with the time for it.
func (d *dialer) establish(ctx context.Context, prepare func(context.Context, *wire) error) (*wire, error) {
	var at []string
	as, err := d.credentials(ctx)
	if err == nil {
		at, err = d.resolve(ctx)
	}
	if err == nil {
		err = d.address.admit(ctx)
	}
	if err != nil {
		return nil, err
	}
	defer d.address.dismiss()
	p := &patience{address: d.address, config: d.config}
	ctx = p.begin(ctx)
	defer p.end()
	w, err := d.open(ctx, at, as, p)
	if err != nil {
		return nil, err
	}
	if err = prepare(ctx, w); !w.unwatch() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// open dials one of the addresses, authenticates and selects the database. The wire is closed when ctx is done, until
// unwatch. Each step until then has a time limit of its own: see patience.
func (d *dialer) open(ctx context.Context, at []string, as login, p *patience) (*wire, error) {
	conn, err := d.dial(ctx, at, p)
	if err != nil {
		err = redacted(err, as.user, as.password)
		return nil, d.causeOf(ctx, err, d.noConnection(err))
	}
	p.next()
	if remote := conn.RemoteAddr(); remote != nil && remote.Network() == "tcp" {
		at := remote.String()
		d.remote.Store(&at)
	}
	w := &wire{patience: p, net: conn, first: endpoint.FirstBytes{Conn: conn, Secure: d.url.TLS}}
	w.decoder = resp.NewDecoder(&w.first)
	w.decoder.Strict = true
	w.unwatch = context.AfterFunc(ctx, w.close) // an unresponsive server must not delay Close either
	if err := w.logIn(as, d.url.DB); err != nil {
		w.unwatch()
		w.close()
		err = redacted(w.first.Explain(err), as.user, as.password)
		return nil, d.causeOf(ctx, err, d.config.noReply())
	}
	return w, nil
}

func (d *dialer) dial(ctx context.Context, at []string, p *patience) (conn net.Conn, err error) {
	if d.config.Dial != nil {
		conn, err = d.config.Dial(ctx, d.url.Network, d.url.Address)
	} else {
		pause := min(maxPause, d.config.ConnectTimeout/2/time.Duration(len(at)))
		conn, err = race(ctx, at, pause, func(ctx context.Context, addr string) (net.Conn, error) {
			return d.network.reach(ctx, d.url.Network, addr)
		})
	}
	if err != nil || !d.url.TLS {
		return conn, err
	}
	p.next()
	secure := tls.Client(conn, endpoint.TLSConfig(d.config.TLS, d.url.Address))
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, endpoint.TLSError(d.causeOf(ctx, err, d.config.noReply()), ErrTimeout)
	}
	return secure, nil
}

// credentialsTimeout is for Config.Credentials: longer than an attempt to connect, since it may ask a remote service.
const credentialsTimeout = 10 * time.Second

// inquiry is a call of Config.Credentials.
type inquiry struct {
	over  chan struct{} // closed when the fields below are set
	ended time.Time
	as    login
	err   error
}

// credentials returns user and password for an attempt. What Config.Credentials returns too late is for the next one.
func (d *dialer) credentials(ctx context.Context) (login, error) {
	if d.config.Credentials == nil {
		return login{d.url.Username, d.url.Password}, nil
	}
	q := d.inquire() //nolint:contextcheck // it outlives this attempt
	if err := d.await(ctx, q.over, credentialsTimeout, noCredentials); err != nil {
		return login{}, err
	}
	d.asking.Lock()
	defer d.asking.Unlock()
	if d.inquiry == q {
		d.inquiry = nil
	}
	return q.as, q.err
}

// await waits until what an attempt needs is there, and says meanwhile why it is not: nobody who looks, and no request
// that times out, should blame the server. After limit, it returns that.
func (d *dialer) await(
	ctx context.Context, over <-chan struct{}, limit time.Duration, why func(within time.Duration) error,
) error {
	begun := d.config.Now()
	for _, until := range []time.Duration{d.config.Timeout / 2, d.config.ConnectTimeout, limit} {
		select {
		case <-over:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(min(until, limit) - d.config.Now().Sub(begun)):
		}
		if until >= limit {
			break
		}
		d.say(why(until), until)
	}
	return why(limit)
}

// resolve returns the addresses of the server, each with its port: what the name stands for now, or if that cannot be
// had in time, what it stood for last. It returns none if they are Config.Dial's to find.
func (d *dialer) resolve(ctx context.Context) ([]string, error) {
	if d.config.Dial != nil {
		return nil, nil
	}
	host, _, _ := net.SplitHostPort(d.url.Address)
	if _, err := netip.ParseAddr(host); d.url.Network == "unix" || err == nil {
		return []string{d.url.Address}, nil
	}
	names := d.address.names
	q := names.ask(d.url.Address, d.config.Now, d.network.lookUp) //nolint:contextcheck // it outlives this attempt
	limit := 2 * lookupTimeout                                    // it ends by itself
	if names.last() != nil {
		limit = d.config.ConnectTimeout
	}
	var addrs []string
	err := d.await(ctx, q.over, limit, func(time.Duration) error { return unresolved(host, "") })
	if ctx.Err() != nil { // also where the answer came at the same moment
		return nil, cmp.Or(err, context.Cause(ctx))
	}
	if err == nil {
		addrs, err = q.addrs, q.err
	}
	if dns := (*net.DNSError)(nil); err != nil && names.last() != nil && !(errors.As(err, &dns) && dns.IsNotFound) {
		return names.last(), nil
	}
	return addrs, err
}

// inquire returns the inquiry that is under way, or has ended well just now and is nobody's, or begins another.
func (d *dialer) inquire() *inquiry {
	d.asking.Lock()
	defer d.asking.Unlock()
	q := d.inquiry
	if q != nil && (!isClosed(q.over) || q.err == nil && d.config.Now().Sub(q.ended) < credentialsTimeout) {
		return q
	}
	q = &inquiry{over: make(chan struct{})}
	d.inquiry = q
	go func() {
		defer close(q.over)
		ctx, cancel := context.WithTimeoutCause(d.ctx, credentialsTimeout, ErrTimeout)
		defer cancel()
		var err error
		q.as.user, q.as.password, err = d.config.Credentials(ctx, d.url.String())
		switch {
		case err == nil:
		case ctx.Err() == nil || !errors.Is(err, ctx.Err()):
			q.err = endpoint.CredentialsError{Err: err}
		case errors.Is(context.Cause(ctx), ErrTimeout): // no deadline of a caller's
			q.err = noCredentials(credentialsTimeout)
		default:
			q.err = context.Cause(ctx)
		}
		q.ended = d.config.Now()
	}()
	return q
}

func noCredentials(within time.Duration) error {
	return endpoint.CredentialsError{Err: timeoutError{"no answer within " + seconds(within)}}
}

// redacted hides what a reply to AUTH quotes of user and password: a server that does not know the command quotes what
// came with it. The user "default" is no secret, and Redis's own texts name it.
func redacted(err error, user, password string) error {
	var said redis.Error
	if password == "" || !errors.As(err, &said) {
		return err
	}
	text, _, quoted := strings.Cut(string(said), ", with args beginning with")
	switch {
	case quoted:
		return redis.Error(text)
	case resp.Is(said, resp.Login|resp.Forbidden): // whose texts are known
	case strings.Contains(text, password), user != "" && user != "default" && strings.Contains(text, user):
		return redis.Error(resp.Code(said) + " (the reply to AUTH quotes what was sent, so it is not shown)")
	}
	return err
}

// causeOf replaces the network's time-out errors by late, which says what took too long, or by the cause that ctx has.
func (d *dialer) causeOf(ctx context.Context, err, late error) error {
	var timeout net.Error
	switch cause := context.Cause(ctx); {
	case errors.Is(err, ErrTimeout), errors.As(err, new(endpoint.MismatchError)):
		return err // it says more
	case cause != nil && !errors.Is(cause, ErrTimeout):
		return cause
	case cause != nil:
		return late
	case errors.As(err, &timeout) && timeout.Timeout(): // somebody else's
		return timeoutError{err.Error()}
	default:
		return d.explain(err, "")
	}
}

func (d *dialer) explain(err error, command string) error {
	if err == nil || d.config.Explain == nil {
		return err
	}
	return d.config.Explain(err, command)
}

// noConnection returns the error of an attempt in which no connection was made in time. err: what ended the attempt.
func (d *dialer) noConnection(err error) error {
	within, said := " within "+seconds(d.config.ConnectTimeout), err.Error()
	switch {
	case errors.As(d.why(), new(SilentError)): // the kernel accepts connections for it until its backlog is full
		return silent("no connection" + within + ", after it had stopped answering")
	case d.config.Dial == nil:
		return timeoutError{"no connection" + within}
	case said == context.Canceled.Error():
		return timeoutError{"no connection from NodeConfig.Dial" + within}
	default: // whom it asked for the way, perhaps
		return timeoutError{"no connection from NodeConfig.Dial" + within + ": " + said}
	}
}
