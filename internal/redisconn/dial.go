package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/gomodule/redigo/redis"
)

// server is a parsed URL.
type server struct {
	network, address   string
	username, password string
	db                 int
	tls                bool
}

// String names the server for humans, without user and password.
func (s server) String() string {
	if s.network == "unix" {
		return "unix://" + s.address
	}
	return s.address
}

var (
	errNoURL = errors.New("not a URL such as redis://user:password@host:6379/0, and not host:port")
	// errUnescaped is for a text in which an @ is left over. A password with a slash in it ends the host there, and one
	// with a question mark or a number sign, too.
	errUnescaped = errors.New("not a URL such as redis://user:password@host:6379/0: percent-encode what is special in " +
		"user and password, such as @ / # ? % (as %40 %2F %23 %3F %25)")
)

// isList reports whether a text is several URLs, separated by commas or blanks. A password may have either, so each
// part must be one.
func isList(raw string) bool {
	parts := strings.FieldsFunc(raw, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	return len(parts) > 1 && !slices.ContainsFunc(parts, func(part string) bool {
		_, err := parseServer(part)
		return err != nil
	})
}

// parseServer parses redis://, rediss:// and unix:// URLs. What has no scheme, such as host:port, is the rest of a
// redis:// URL. Its errors quote nothing that may be part of a password.
func parseServer(raw string) (server, error) {
	if raw == "" {
		return server{}, errNoURL
	}
	if !strings.Contains(raw, "://") {
		raw = "redis://" + raw
	}
	u, err := url.Parse(raw)
	switch {
	case (err != nil || strings.ContainsAny(u.Host+u.Path, ", ")) && isList(raw):
		return server{}, errors.New("this is more than one node: give New each as an element of its own (strings.Split)")
	case err != nil && strings.Contains(raw, "@"):
		return server{}, errUnescaped
	case err != nil || u.Opaque != "" || u.Scheme == "":
		return server{}, errNoURL
	case strings.Contains(u.RawQuery+u.Fragment, "@"), strings.Contains(u.Path, "@") && !isSocket(u):
		return server{}, errUnescaped
	}
	s := server{network: "tcp"}
	if u.User != nil {
		s.username = u.User.Username()
		var set bool
		if s.password, set = u.User.Password(); !set {
			// redis-cli, too, reads redis://secret@host as a password.
			s.username, s.password = "", s.username
		}
	}
	db := strings.TrimPrefix(u.Path, "/")
	switch u.Scheme {
	case "redis", "valkey":
	case "rediss", "valkeys":
		s.tls = true
	case "unix":
		s.network, s.address, db = "unix", u.Path, u.Query().Get("db")
		if u.Host != "" || s.address == "" {
			return server{}, errors.New("a unix URL needs three slashes and a path: unix:///run/redis.sock")
		}
	default:
		unknown := "unknown scheme"
		if slices.Contains([]string{"http", "https", "ftp", "tcp", "tls", "ssl"}, u.Scheme) {
			unknown += " " + strconv.Quote(u.Scheme) // any other may be the beginning of a password
		}
		return server{}, errors.New(unknown + ": use redis, rediss (TLS) or unix")
	}
	for key := range u.Query() {
		if s.network != "unix" || key != "db" {
			return server{}, errors.New("unknown query parameter; options are given to New")
		}
	}
	if s.network == "tcp" {
		host, port := u.Hostname(), u.Port()
		if host == "" {
			return server{}, errors.New("no host")
		}
		if strings.Contains(host, ":") && u.Host[0] != '[' {
			return server{}, errors.New("an IPv6 address needs brackets, as in redis://[::1]:6379")
		}
		if port == "" {
			port = "6379"
		}
		if p, err := strconv.Atoi(port); err != nil || p < 1 || p > 65535 {
			return server{}, errors.New("port out of range 1 to 65535")
		}
		s.address = net.JoinHostPort(strings.ToLower(host), port)
	}
	if db != "" {
		if s.db, err = strconv.Atoi(db); err != nil || s.db < 0 {
			return server{}, errors.New("the database must be a number, as in redis://host:6379/2")
		}
	}
	return s, nil
}

// SplitURL returns the URL of a server without user and password, its address as Addr has it, and the two. Its errors
// quote nothing that may be part of a password.
func SplitURL(raw string) (bare, addr, user, password string, err error) {
	at, err := parseServer(raw)
	if err != nil {
		return "", "", "", "", err
	}
	scheme, rest, found := strings.Cut(raw, "://")
	if !found {
		scheme, rest = "redis", raw
	}
	authority, path := rest, ""
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority, path = rest[:end], rest[end:]
	}
	host := authority[strings.LastIndex(authority, "@")+1:]
	return scheme + "://" + host + path, at.String(), at.username, at.password, nil
}

// isSocket reports whether the URL names a socket, by a path that may contain any character.
func isSocket(u *url.URL) bool { return u.Scheme == "unix" && u.Host == "" }

// link is one established connection.
type link struct {
	redigo   redis.Conn  // for the handshake, and for the second connection; nil: the handshake is over
	patience *patience   // of the handshake
	unwatch  func() bool // ends that the link is closed with the handshake's context; false: it was closed
	first    firstBytes  // of the same connection
	net      net.Conn    // the same connection, for requests
	decoder  *decoder    // owned by the reader
	encoder  Encoder     // owned by the writer, like batch
	batch    []*group    // what the writer sends next
	write    func()      // the writer; made once, so that starting it allocates nothing
	resp3    bool        // the protocol; false: RESP2

	users sync.WaitGroup // the writer and the check; to add to it needs Conn.mu, and that ended is not set

	// Guarded by Conn.mu:
	writing  bool               // there is a writer, or writing has failed
	took     time.Duration      // when the writer took the batch that it is writing: after Conn.since; 0: it writes none
	checking bool               // there is a check
	endCheck context.CancelFunc // ends its context; nil: there is none
	ended    bool               // no writer and no check may begin
	failure  error              // of the writer or the check; nil: the reader's error ends the link

	subscribing subscribing
	refusal     error // of the last SUBSCRIBE
}

// connect opens a connection that is ready for requests.
func (c *Conn) connect(ctx context.Context) (*link, error) {
	l, err := c.establish(ctx, func(ctx context.Context, l *link) error {
		if err := c.prepare(l); err != nil {
			return c.causeOf(ctx, err, true)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	l.patience, l.unwatch, l.encoder = nil, nil, Encoder{} // an idle connection keeps nothing of its handshake
	l.write = func() { c.write(l) }
	return l, nil
}

// login is the user and the password for one attempt to connect.
type login struct{ user, password string }

// establish opens a connection and prepares it, in its turn. Before that it asks for the credentials, which may take
// long and must not take other handshakes' turns. prepare's context is done when the time for it is over.
func (c *Conn) establish(ctx context.Context, prepare func(context.Context, *link) error) (*link, error) {
	as, err := c.credentials(ctx)
	if err == nil {
		err = c.address.admit(ctx)
	}
	if err != nil {
		return nil, err
	}
	defer c.address.dismiss()
	p := &patience{
		address: c.address, now: c.config.Now, limit: c.config.ConnectTimeout, late: c.lateness(), cause: ErrTimeout,
	}
	ctx = p.begin(ctx)
	defer p.end()
	l, err := c.open(ctx, as, p)
	if err != nil {
		return nil, err
	}
	err = prepare(ctx, l)
	if !l.unwatch() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// open dials, authenticates and selects the database. The link is closed when ctx is done, until unwatch. Each command
// until then has a time limit of its own: see patience.
func (c *Conn) open(ctx context.Context, as login, p *patience) (*link, error) {
	l := &link{patience: p, unwatch: func() bool { return true }}
	conn, err := redis.DialContext(ctx, c.server.network, c.server.address,
		redis.DialContextFunc(func(ctx context.Context, network, address string) (_ net.Conn, err error) {
			if l.net, err = c.dial(ctx, network, address); err != nil {
				return nil, err
			}
			l.first.Conn = l.net
			l.unwatch = context.AfterFunc(ctx, l.close) // an unresponsive server must not delay Close either
			return &l.first, nil
		}),
		redis.DialWriteTimeout(c.config.ConnectTimeout),
		redis.DialUsername(as.user),
		redis.DialPassword(as.password),
		redis.DialDatabase(c.server.db),
	)
	if err != nil {
		if l.net != nil {
			l.unwatch()
			err = l.mismatch(err, c.server.tls)
		}
		return nil, c.causeOf(ctx, redacted(err, as.user, as.password), l.net != nil)
	}
	l.redigo = conn
	p.answered()
	return l, nil
}

// credentialsTimeout is how long Config.Credentials may take: longer than an attempt to connect, since it may ask a
// service that is far away.
const credentialsTimeout = 10 * time.Second

// inquiry is a call of Config.Credentials.
type inquiry struct {
	over  chan struct{} // closed when the fields below are set
	ended time.Time
	as    login
	err   error
}

// credentials returns user and password for an attempt to connect. What Config.Credentials returns too late for one is
// the next one's.
func (c *Conn) credentials(ctx context.Context) (login, error) {
	if c.config.Credentials == nil {
		return login{c.server.username, c.server.password}, nil
	}
	q := c.inquire() //nolint:contextcheck // it outlives this attempt
	slow, limit := time.NewTimer(c.config.ConnectTimeout), time.NewTimer(credentialsTimeout)
	defer slow.Stop()
	defer limit.Stop()
	for {
		select {
		case <-q.over:
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.inquiry == q {
				c.inquiry = nil
			}
			return q.as, q.err
		case <-slow.C:
			c.mu.Lock()
			if c.link == nil { // nobody who looks meanwhile should blame the server
				c.down = fmt.Errorf("%w: %w", ErrDown, noCredentials(c.config.ConnectTimeout))
			}
			c.mu.Unlock()
		case <-limit.C:
			return login{}, noCredentials(credentialsTimeout)
		case <-ctx.Done():
			return login{}, context.Cause(ctx)
		}
	}
}

// inquire returns the inquiry that is under way, or has ended well just now and is nobody's, or begins another.
func (c *Conn) inquire() *inquiry {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q := c.inquiry; q != nil {
		select {
		case <-q.over:
			if q.err == nil && c.config.Now().Sub(q.ended) < credentialsTimeout {
				return q
			}
		default:
			return q
		}
	}
	q := &inquiry{over: make(chan struct{})}
	c.inquiry = q
	go func() {
		defer close(q.over)
		ctx, cancel := context.WithTimeoutCause(c.ctx, credentialsTimeout, ErrTimeout)
		defer cancel()
		var err error
		q.as.user, q.as.password, err = c.config.Credentials(ctx, c.Addr())
		switch {
		case err == nil:
		case ctx.Err() == nil || !errors.Is(err, ctx.Err()):
			q.err = CredentialsError{err}
		case errors.Is(context.Cause(ctx), ErrTimeout): // no deadline of a caller's
			q.err = noCredentials(credentialsTimeout)
		default:
			q.err = context.Cause(ctx)
		}
		q.ended = c.config.Now()
	}()
	return q
}

func noCredentials(within time.Duration) error {
	return CredentialsError{timeoutError{"no answer within " + seconds(within)}}
}

// redacted hides what a reply to AUTH quotes of user and password: a server that does not know the command quotes what
// came with it. The user "default" is no secret, and Redis's own texts name it.
func redacted(err error, user, password string) error {
	var said redis.Error
	if password == "" || !errors.As(err, &said) {
		return err
	}
	text, _, quoted := strings.Cut(string(said), ", with args beginning with")
	switch code := Code(said); {
	case quoted:
		return redis.Error(text)
	case code == "WRONGPASS", code == "NOAUTH", code == "NOPERM": // whose texts are known
		return err
	case strings.Contains(text, password), user != "" && user != "default" && strings.Contains(text, user):
		return redis.Error(code + " (the reply to AUTH quotes what was sent, so it is not shown)")
	default:
		return err
	}
}

// CredentialsError means that Config.Credentials failed, so that no connection was tried, or that the function for the
// client's certificate in Config.TLS did. The server is not to blame.
type CredentialsError struct{ err error }

// Error returns the function's own text.
func (e CredentialsError) Error() string { return "credentials: " + e.err.Error() }

// Unwrap returns the function's error.
func (e CredentialsError) Unwrap() error { return e.err }

// causeOf replaces the network's various time-out errors by an ErrTimeout that says what took too long, or by ctx's
// cause if ctx was cancelled. accepted: the connection itself had been made.
func (c *Conn) causeOf(ctx context.Context, err error, accepted bool) error {
	var timeout net.Error
	switch cause := context.Cause(ctx); {
	case errors.Is(err, ErrTimeout), errors.As(err, new(MismatchError)):
		return err // it says more
	case cause != nil && !errors.Is(cause, ErrTimeout):
		return cause
	case cause != nil, errors.As(err, &timeout) && timeout.Timeout():
		return c.noAnswer(accepted)
	default:
		return c.explain(err, "")
	}
}

func (c *Conn) explain(err error, command string) error {
	if err == nil || c.config.Explain == nil {
		return err
	}
	return c.config.Explain(err, command)
}

// prepare runs the handshake on a new connection, which may refuse the server, chooses the protocol, and loads the
// scripts.
func (c *Conn) prepare(l *link) error {
	if c.config.Handshake != nil {
		if err := c.config.Handshake(l.do); err != nil {
			return l.mismatch(err, c.server.tls)
		}
	}
	// The handshake has read all replies to its commands, so redigo has nothing left in its buffer. It knows no RESP3.
	_ = l.net.SetWriteDeadline(time.Time{})
	l.redigo = nil
	l.decoder = newDecoder(l.net)
	return c.explain(c.loadScripts(l), "script")
}

// do is a Do over a connection that redigo reads.
func (l *link) do(commands ...[]any) ([]any, error) {
	for _, command := range commands {
		if err := l.redigo.Send(command[0].(string), command[1:]...); err != nil {
			return nil, err
		}
	}
	if err := l.redigo.Flush(); err != nil {
		return nil, err
	}
	replies := make([]any, len(commands))
	for i := range replies {
		reply, err := l.redigo.Receive()
		if err != nil && !isErrorReply(err) {
			if i > 0 && asError(replies[i-1]) != nil {
				err = asError(replies[i-1]) // the server said why it would hang up: too many clients
			}
			return nil, err
		}
		if replies[i] = reply; err != nil {
			replies[i] = err
		}
	}
	l.patience.answered()
	return replies, nil
}

func (c *Conn) dial(ctx context.Context, network, address string) (net.Conn, error) {
	dial := c.config.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	conn, err := dial(ctx, network, address)
	if err != nil || !c.server.tls {
		return conn, err
	}
	config := c.config.TLS.Clone()
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(address)
	}
	ask(config)
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, tlsError(c.causeOf(ctx, err, true))
	}
	return secure, nil
}

// ask prepares the functions of a configuration, by which certificates can change while a client runs: what they fail
// with is told apart from what the server does, and one that verifies the server learns whom to expect.
func ask(config *tls.Config) {
	if get := config.GetClientCertificate; get != nil {
		config.GetClientCertificate = func(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			own, err := get(info)
			if err != nil {
				err = CredentialsError{err}
			}
			return own, err
		}
	}
	if verify := config.VerifyConnection; verify != nil {
		name := config.ServerName
		config.VerifyConnection = func(state tls.ConnectionState) error {
			// It is empty for an IP address, which no server is told. A Verify without a DNSName would then accept whatever
			// the authority has ever signed, as the one in the example of crypto/tls does.
			state.ServerName = name
			err := verify(state)
			if err != nil && !errors.As(err, new(*tls.CertificateVerificationError)) {
				err = &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}
			}
			return err
		}
	}
}

// close may be called more than once, by any goroutine. Everything written still reaches the server.
func (l *link) close() { _ = l.net.Close() }

// abort resets the connection: the kernel discards what it has not sent yet. Otherwise this would reach the server
// after requests sent over the next connection: an extension after the release.
func (l *link) abort() {
	conn := l.net
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn() // without a close_notify alert, for which the send buffer may have no room
	}
	if tcp, ok := conn.(interface{ SetLinger(sec int) error }); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
