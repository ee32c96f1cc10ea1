package redlock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/diagnosis"
	"github.com/quorumlock/redlock/internal/endpoint"
	"github.com/quorumlock/redlock/internal/printable"
	"github.com/quorumlock/redlock/internal/redisconn"
	"github.com/quorumlock/redlock/internal/resp"
)

// What an ACL forbids is named in each server's own words: Redis up to 7.0, or later ones and Valkey.
func TestErrorsNameTheMissingRight(t *testing.T) {
	const page, prefix = "docs/operations.md has the ACL", "the user's ~ or & does not cover the prefix: "
	for _, c := range []struct{ reply, command, want string }{
		{"NOPERM this user has no permissions to run the 'eval' command", "scan", "'eval' command (" + page},
		{
			"ERR The user executing the script can't run this command or subcommand script: 5f, on @user_script:6.",
			"scan", "or subcommand (scan) (" + page,
		},
		{
			"ERR ACL failure in script: User app has no permissions to run the 'scan' command script: 5f, on @user_script:6.",
			"scan or strlen", "the 'scan' command (" + page,
		},
		{"ERR ACL failure in script: No permissions to access a key script: 5f, on @user_script:6.", "", "a key (" + prefix},
		{"NOPERM No permissions to access a channel", "", "a channel (" + prefix},
		{
			"ERR The user executing the script can't publish to the channel mentioned in the command script: 5f", "publish",
			"mentioned in the command (" + prefix,
		},
	} {
		if got := explained(redis.Error(c.reply), c.command).Error(); !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.reply, got, c.want)
		}
	}
}

func TestSecretsStayOutOfErrors(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		for i, n := range fl.nodes {
			n.SetPassword("right")
			fl.urls[i] = "redis://someone:hunter2@" + n.Addr()
		}
		var log journal
		l := fl.locker("a", log.logging(slog.LevelDebug))
		_, err := l.TryLock(t.Context(), "job")
		if !errors.Is(err, ErrNoQuorum) || !strings.Contains(err.Error(), "WRONGPASS") ||
			!strings.Contains(err.Error(), "n0:6379") {
			t.Errorf("got %v, want ErrNoQuorum that names the node and WRONGPASS", err)
		}
		_ = l.Close()
		for _, text := range append(log.take(), fmt.Sprintf("%v %+v %#v", err, err, err)) {
			if strings.Contains(text, "hunter2") || strings.Contains(text, "someone") {
				t.Errorf("it has a secret: %s", text)
			}
		}
	})
}

func TestForeignKeysAreExplained(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		for _, n := range fl.nodes {
			n.Do("LPUSH", "list", "x")
			n.Do("SET", "eternal", "x")
			n.Do("SET", "redlock:permit:gpu:0", "x")
		}
		_, err := l.Semaphore("gpu", 1).TryAcquire(t.Context())
		failsSaying(t, err, ErrTaken, "the next for another 3600.0 s")
		for name, want := range map[string]string{"list": "not a string", "eternal": "no TTL"} {
			if _, err := l.TryLock(t.Context(), name); !errors.Is(err, ErrTaken) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want ErrTaken with %q", name, err, want)
			}
		}
	})
}

// What keeps a node from voting is of one kind. By that the finding about it is chosen, and the word in a call's error.
func TestTroubles(t *testing.T) {
	down := func(err error) error { return fmt.Errorf("%w: %w", ErrNodeDown, err) }
	said := func(reply string) error { return down(explained(redis.Error(reply), "")) }
	unknown := &net.DNSError{Err: "no such host", Name: "r2", IsNotFound: true}
	unresolved := &net.DNSError{Err: "the name is not resolved yet", Name: "r2", IsTimeout: true}
	var noPassword error
	bubble(t, 1, func(t *testing.T, fl *fleet) {
		l := fl.locker("a", asking(func(context.Context, string) (user, password string, err error) {
			return "", "", fmt.Errorf("redlock: no vault: %w", unknown)
		}))
		noPassword = l.nodes[0].status().Err
	})
	for _, c := range []struct {
		err         error
		code, short string // of the finding; word and more, as Ready's error has them
	}{
		{&abstainError{reason: "restarted", until: time.Now(), remaining: 11500 * ms}, "abstains", "abstaining for 12 s|"},
		{&abstainError{reason: "its clock is wrong"}, "clock", "abstaining|its clock is wrong"},
		{noPassword, "credentials", "without credentials|no vault: lookup r2: no such host"},
		{said("WRONGPASS invalid"), "reply-wrongpass", "WRONGPASS|invalid"},
		{
			said("ERR AUTH <password> called without any password configured for the default user."), "reply-err",
			"ERR|the server has no password (leave it out, or name the user: default:PASSWORD@ works before and after one " +
				"is set)",
		},
		{
			said("ERR The user executing the script can't run this command or subcommand script: 6d1f, on @user_script:7."),
			"reply-err", "ERR|The user executing the script can't run this command or subcommand (redlock doctor names it; " +
				"docs/operations.md has the ACL)",
		},
		{said("OOM full"), "reply-oom", "OOM|full (the node's memory is full: raise maxmemory)"},
		{down(fmt.Errorf("%w: %w r1", ErrNodeRefused, errDuplicate)), "twice", "refused|the same server as r1"},
		{down(fmt.Errorf("%w: a replica", ErrNodeRefused)), "refused", "refused|a replica"},
		{down(resp.Unexpected(int64(7))), "not-redis", "failed|unexpected reply 7"},
		{redisconn.ErrLate, "silent", "not heard in time (this process was late)|"},
		{ErrNodeTimeout, "silent", "silent|"},
		{down(redisconn.SilentError{}), "silent", "silent|"},
		{down(ErrNodeTimeout), "unreachable", "silent|"},
		{errNodeBusy, "silent", "busy|"},
		{down(&net.OpError{Op: "dial", Err: unknown}), "unreachable", "unreachable: no such host|"},
		{down(unresolved), "unreachable", "unreachable: the name is not resolved yet|"},
		{down(&net.OpError{Op: "dial", Net: "tcp", Err: io.EOF}), "unreachable", "unreachable|"},
		{down(syscall.EMFILE), "unreachable", "unreachable: too many open files|"},
		{down(io.EOF), "unreachable", "unreachable|EOF"},
		{errors.New("odd"), "unreachable", "failed|odd"},
		{down(endpoint.MismatchError{Kind: endpoint.NotRedis}), "not-redis", "unreachable|"},
		{down(endpoint.MismatchError{Kind: endpoint.NoTLS}), "tls", "unreachable|"},
		{down(endpoint.MismatchError{Kind: endpoint.PerhapsNoTLS}), "tls", "unreachable|"},
		{down(endpoint.MismatchError{Kind: endpoint.PerhapsTLS}), "unreachable", "unreachable|"},
		{down(endpoint.MismatchError{Kind: endpoint.Certificate}), "certificate", "unreachable|"},
		{down(endpoint.MismatchError{Kind: endpoint.OurCertificate}), "certificate", "unreachable|"},
		{down(endpoint.MismatchError{Kind: endpoint.Alert}), "tls", "unreachable|"},
	} {
		kind, text, reply := troubleOf(c.err)
		found := diagnosis.Findings(&diagnosis.Facts{Trouble: kind, Error: text, Reply: reply})
		if len(found) != 1 || string(found[0].Code) != c.code {
			t.Errorf("%v: %s: found %+v, want %s", c.err, kind, found, c.code)
		}
		word, more := NodeError{Outcome: outcomeFailed, Err: c.err}.short()
		equals(t, word+"|"+more, c.short, "%v: in short", c.err)
	}
}

// Users see the reply of the node, as far as it can be printed, unless the connection is gone: that error says more.
func TestExplained(t *testing.T) {
	said := redis.Error("READONLY You can't write against a read only replica.")
	var reply *ReplyError
	if err := explained(said, ""); !errors.As(err, &reply) || reply.Code != "READONLY" {
		t.Errorf("got %v, want a ReplyError", err)
	}
	const evil = "\x1b]0;x\x07\u202e\u009b31m\x9b"
	long := "ERR " + strings.Repeat(evil, 9999)
	for said, code := range map[string]string{"OOM " + evil: "OOM", evil: "ERR", long: "ERR"} {
		err := explained(redis.Error(said), "")
		if text := fmt.Sprintf("%v", err); !errors.As(err, &reply) || reply.Code != code || printable.Text(text) != text ||
			len(text) > 4<<10 || !strings.Contains(text, `\x1b]0;x\a\u202e\u009b31m\x9b`) {
			t.Errorf("%.50q: got %+v", said, err)
		}
	}
	conflict := &ListConflictError{Other: [][]string{{evil, strings.Repeat("x", 1<<16)}}}
	if text := conflict.Error(); printable.Text(text) != text || len(text) > 5<<10 {
		t.Errorf("got %q", text)
	}
	gone := fmt.Errorf("%w: no longer a master: %w", ErrNodeDown, said)
	if err := explained(gone, ""); !errors.Is(err, ErrNodeDown) || err.Error() != gone.Error() {
		t.Errorf("got %v, want %v", err, gone)
	}
	fails(t, explained(redisconn.ErrClosed, ""), ErrClosed)
	for _, usual := range []error{nil, ErrNodeTimeout, gone, errNodeBusy} { // of a sick node in every round
		equals(t, testing.AllocsPerRun(100, func() { _ = explained(usual, "") }), 0, "%v: allocations", usual)
	}
}

// manyErrors is an error that cannot be compared.
type manyErrors []error

func (e manyErrors) Error() string   { return errors.Join(e...).Error() }
func (e manyErrors) Unwrap() []error { return e }

// A call that returns without the lock says so, whatever the reason, and nothing else does. How the error prints and is
// logged does not change.
func TestErrNotAcquired(t *testing.T) {
	functions := maps.Clone(doing)
	functions["TryOnce"] = func(l *Locker, ctx context.Context, fn inHold) error { return l.TryOnce(ctx, "job", fn) }
	all := map[string]func(ctx context.Context, l *Locker) error{
		"no ticket": func(ctx context.Context, l *Locker) error { return errOf(l.Adopt(ctx, "x")) },
		"no name":   func(ctx context.Context, l *Locker) error { return errOf(l.Lock(ctx, "")) },
		"no names":  func(ctx context.Context, l *Locker) error { return errOf(l.LockAll(ctx, nil)) },
		"permits":   func(ctx context.Context, l *Locker) error { return errOf(l.Semaphore("job", 0).Acquire(ctx)) },
		"no TTL":    func(ctx context.Context, l *Locker) error { return errOf(l.Lock(ctx, "job", WithTTL(0))) },
		"done":      func(ctx context.Context, l *Locker) error { return l.Once(ctx, "done", mustNotRun(t)) },
		"no job":    func(ctx context.Context, l *Locker) error { return l.Once(ctx, "", mustNotRun(t)) },
		"Forget":    func(ctx context.Context, l *Locker) error { return errOf(l.Forget(ctx, "job")) },
		"not once": func(ctx context.Context, l *Locker) error {
			return l.TryOnce(ctx, "done", mustNotRun(t), WithMaxWait(time.Second))
		},
	}
	for name, call := range functions {
		all[name] = func(ctx context.Context, l *Locker) error { return call(l, ctx, mustNotRun(t)) }
	}
	for name, call := range calls {
		all[name] = func(ctx context.Context, l *Locker) error { return errOf(call(ctx, l)) }
	}
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		holder, l := fl.locker("holder"), fl.locker("a")
		succeeds(t, l.Once(t.Context(), "done", succeed))
		lost := must(l.Lock(t.Context(), "job", WithMaxHold(time.Millisecond)))(t)
		inLost, end := lost.Context(t.Context())
		defer end()
		time.Sleep(2 * time.Millisecond)
		fails(t, errOf(l.Lock(inLost, "job")), ErrNotAcquired, "inside a hold that was lost")
		fails(t, l.Once(inLost, "another", mustNotRun(t)), ErrNotAcquired, "a job inside a hold that was lost")
		_ = lost.Unlock()
		for name, call := range functions {
			ran := false
			err := call(l, t.Context(), func(ctx context.Context, _ *Lock) error {
				ran = true
				return manyErrors{fmt.Errorf("inside: %w", errOf(holder.TryLock(ctx, "")))}
			})
			failsAlone(t, err, ErrInvalid, ErrNotAcquired)
			fails(t, err, err, name) // and does not panic
			if !ran {
				t.Errorf("%s: not called", name)
			}
		}
		must(holder.Lock(t.Context(), "job"))(t)
		must(holder.Semaphore("job", 1).Acquire(t.Context()))(t)
		for name, call := range all {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			fails(t, call(ctx, l), ErrNotAcquired, name)
			cancel()
			fails(t, call(ctx, l), ErrNotAcquired, name+", ended")
		}
		err := errOf(l.TryLock(t.Context(), "job"))
		q := quorumError(t, err)
		equals(t, err.Error(), q.Error(), "the text")
		equals(t, fmt.Sprintf("%+v|%v|%q", err, err, err), fmt.Sprintf("%+v|%v|%q", q, q, q), "its forms")
		equals(t, slog.AnyValue(err).Resolve().String(), slog.AnyValue(q).Resolve().String(), "in a log")
		fl.nodes[:2].crash(true)
		for name, call := range all {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			fails(t, call(ctx, l), ErrNotAcquired, name+", without a majority")
			cancel()
		}
		_ = l.Close()
		for name, call := range all {
			fails(t, call(t.Context(), l), ErrNotAcquired, name+", closed")
		}
	})
}
