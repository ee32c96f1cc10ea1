package redlock

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"github.com/quorumlock/redlock/internal/chance"
	"github.com/quorumlock/redlock/internal/token"
)

// options are the settled settings of a Locker or of one call. They are never
// changed once settled, so that calls and holds can share them.
type options struct {
	ttl         time.Duration
	minValidity time.Duration // 0: a quarter of the TTL, or of the maximum hold
	drift       drift
	backoff     Backoff
	maxAttempts int           // 0: no limit
	renew       bool          // extend until unlocked
	maxHold     time.Duration // 0: no limit
	fencing     bool          // hand out tokens
	async       bool          // Unlock does not wait for the nodes
	doneTTL     time.Duration // Once: how long the register of runs is kept
	maxRuns     int           // Once: 0: no limit

	// For New alone.
	nodeTimeout time.Duration
	prefix      string
	dialer      func(ctx context.Context, network, address string) (net.Conn, error)
	tls         *tls.Config
	logger      *slog.Logger
	warns       bool // the logger takes warnings
	observer    func(Event)
	retention   time.Duration // how long nodes keep tokens
	guard       time.Duration // how long a node that may have forgotten abstains; 0: not at all
	durable     bool          // nodes that say that they keep all on disk are believed

	evictionAllowed bool
	blind           bool // nodes that refuse INFO are used
	clock           clock

	ttlArg any // the TTL in ms, boxed for the wire
}

// Keys of our own on the nodes, behind the prefix. No lock's name can begin like theirs.
const (
	ownNames   = "redlock:"
	tokensName = ownNames + "tokens"
)

func defaults() options {
	return options{
		ttl:         10 * time.Second,
		drift:       drift{factor: 0.01, slack: 2 * time.Millisecond},
		backoff:     Jitter(10*time.Millisecond, 250*time.Millisecond),
		nodeTimeout: 250 * time.Millisecond,
		renew:       true,
		fencing:     true,
		doneTTL:     2 * time.Hour,
		maxRuns:     3,
		retention:   time.Minute,
		guard:       30 * time.Second,
		logger:      slog.New(slog.DiscardHandler),
		clock:       systemClock(),
	}
}

// connectTimeout bounds dialling, the TLS handshake and the first commands. It
// is also how long a node may stay silent before its connection is replaced.
func (o *options) connectTimeout() time.Duration { return max(time.Second, 4*o.nodeTimeout) }

// Option sets one thing: the default, when given to [New], or an exception,
// when given to a call. Options that only New takes are refused by calls.
type Option struct {
	name     string
	newOnly  bool
	onceOnly bool // of the calls, only Once takes it
	apply    func(*options)
}

// WithTTL sets how long the nodes keep a lock that is not extended, in whole
// milliseconds. The default is 10 s; it may not exceed the restart guard, which is 30 s by default
// ([WithRestartGuard]). It bounds how long others are kept out after the holder has crashed, and not how
// long the work may take: the hold is renewed.
func WithTTL(ttl time.Duration) Option {
	return Option{name: "WithTTL", apply: func(o *options) { o.ttl = ttl }}
}

// WithMinValidity sets how much of the TTL must be left, once a majority has
// granted, for a hold to be worth having. The default is a quarter of the TTL,
// or of the maximum hold where that is shorter.
func WithMinValidity(d time.Duration) Option {
	return Option{name: "WithMinValidity", apply: func(o *options) { o.minValidity = d }}
}

// WithDrift sets what is taken off each TTL for the nodes' clocks: factor × TTL
// + slack. The default is 0.01 and 2 ms, as in the Redis documentation.
func WithDrift(factor float64, slack time.Duration) Option {
	return Option{name: "WithDrift", apply: func(o *options) { o.drift = drift{factor, slack} }}
}

// WithBackoff sets when Lock asks the nodes again while it waits, should nobody
// tell it that its turn has come. The default is Jitter(10*time.Millisecond,
// 250*time.Millisecond). Far back in the queue Lock asks less often, and it asks earlier where
// the holder's TTL ends or part of the votes is there.
func WithBackoff(b Backoff) Option {
	return Option{name: "WithBackoff", apply: func(o *options) { o.backoff = b }}
}

// WithMaxAttempts limits how often Lock asks before it gives up with the last attempt's error; with 1 it does not wait
// at all, as TryLock. With more, it does not limit for how long Lock stands in line behind other goroutines of the
// process that wait for the name: the context does. The default, 0, sets no limit but that.
func WithMaxAttempts(n int) Option {
	return Option{name: "WithMaxAttempts", apply: func(o *options) { o.maxAttempts = n }}
}

// WithoutRenewal leaves the hold to end after its TTL. By default it is extended
// every third of the TTL until it is unlocked.
func WithoutRenewal() Option {
	return Option{name: "WithoutRenewal", apply: func(o *options) { o.renew = false }}
}

// WithMaxHold ends a hold, with [ErrMaxHold], at the latest d after the attempt that
// acquired it began, or after it was got where it was waited for, however often it is extended. The
// default, 0, sets no limit.
func WithMaxHold(d time.Duration) Option {
	return Option{name: "WithMaxHold", apply: func(o *options) { o.maxHold = d }}
}

// WithoutFencing hands out no tokens: a lock that is free is taken with a plain SET
// NX PX, which is what other Redlock clients send.
func WithoutFencing() Option {
	return Option{name: "WithoutFencing", apply: func(o *options) { o.fencing = false }}
}

// WithAsyncUnlock makes Unlock return as soon as the release is on its way: a round trip less for the caller. The hold
// has ended then, and what this Locker asks later, each node executes later, so the same Locker can lock the name again
// at once. What is lost is the nodes' answer: Unlock returns nil also where a majority cannot be reached, or no longer
// had the lock; the nodes let go when they can, at the latest at the end of the TTL. By default Unlock waits.
func WithAsyncUnlock() Option {
	return Option{name: "WithAsyncUnlock", apply: func(o *options) { o.async = true }}
}

// WithFenceRetention sets how long the nodes remember the token of a name that
// is not locked any more. The default is one minute. It must be at
// least 2 s longer than any TTL in use. Only for New.
func WithFenceRetention(d time.Duration) Option {
	return Option{name: "WithFenceRetention", newOnly: true, apply: func(o *options) { o.retention = d }}
}

// WithDoneTTL sets for how long after a run of [Locker.Once] has succeeded nobody begins another, and for how long
// after one has failed it is remembered. The default is 2 h, and twice the TTL the least. It should be longer than the
// machines' starts of one run lie apart, and shorter than the time to the next run, unless each run has a name of its
// own (docs/scheduled-jobs.md). All that run the job must set the same. Only for New and Once.
func WithDoneTTL(d time.Duration) Option {
	return Option{name: "WithDoneTTL", onceOnly: true, apply: func(o *options) { o.doneTTL = d }}
}

// WithMaxRuns sets how many runs [Locker.Once] lets begin within the done TTL until one succeeds. The default is 3; 0
// sets no limit. Only for New and Once.
func WithMaxRuns(n int) Option {
	return Option{name: "WithMaxRuns", onceOnly: true, apply: func(o *options) { o.maxRuns = n }}
}

// WithNodeTimeout sets how long a node may take to answer before it counts as
// failed. The default is 250 ms. TryLock, Extend, Unlock and Adopt return within it.
// Only for New.
func WithNodeTimeout(d time.Duration) Option {
	return Option{name: "WithNodeTimeout", newOnly: true, apply: func(o *options) { o.nodeTimeout = d }}
}

// WithPrefix sets what stands before each name to make the lock's key on the
// nodes. The default is nothing. Only for New.
func WithPrefix(prefix string) Option {
	return Option{name: "WithPrefix", newOnly: true, apply: func(o *options) { o.prefix = prefix }}
}

// WithDialer replaces how connections to nodes are made, for example to ask a
// Sentinel or to use a tunnel. TLS and authentication come on top. Only for New.
func WithDialer(dial func(ctx context.Context, network, address string) (net.Conn, error)) Option {
	return Option{name: "WithDialer", newOnly: true, apply: func(o *options) { o.dialer = dial }}
}

// WithTLSConfig sets the TLS configuration for rediss:// nodes. The default
// verifies the server with the system's roots and wants TLS 1.2. Only for New.
func WithTLSConfig(config *tls.Config) Option {
	return Option{name: "WithTLSConfig", newOnly: true, apply: func(o *options) { o.tls = config }}
}

// WithLogger sets where to log. The default is nowhere. What is logged, by level: Error, holds
// that were lost; Warn, renewals and unlocks that failed, holds that were forgotten, what is wrong with a
// node and what to do about it; Info, nodes whose votes count (again); Debug, every
// attempt, hold and end. Nothing secret is: no passwords, and owners only in errors. Only for New.
func WithLogger(l *slog.Logger) Option {
	return Option{name: "WithLogger", newOnly: true, apply: func(o *options) {
		o.logger = l
		o.warns = l != nil && l.Enabled(context.Background(), slog.LevelWarn)
	}}
}

// WithRestartGuard sets for how long the votes of a node are not counted after it may have forgotten what it voted
// before: after a restart, whatever it keeps on disk (but see [WithDurableNodes]), after the promotion of a replica,
// after FLUSHALL, and after its clock was set forward. The default is 30 s. No TTL may be longer, and all that lock the
// same names must set the same. So masters that have just been started grant nothing for that long. 0 turns it off, for
// development: then two can hold one lock, if a majority of the nodes restart within a TTL. Only for New.
func WithRestartGuard(d time.Duration) Option {
	return Option{name: "WithRestartGuard", newOnly: true, apply: func(o *options) { o.guard = d }}
}

// WithDurableNodes trusts what nodes keep on disk: one that is set to flush every change before it answers (appendonly
// yes, appendfsync always, no-appendfsync-on-rewrite no), and was so when this Locker last saw it, counts at once after
// a restart, as far as this Locker knew it before with the same record. To a Locker that meets it after the restart it
// abstains like any other. The default is to trust no file.
//
// The assumption, which no client can check: nobody changes appendonly or appendfsync while a node runs, and nobody
// starts a node from a replica's file, from a backup, or from any file but its own last one. Where that is not so, two
// can hold one lock. What it gains: after a restart of a majority, clients that were there get locks again at once, and
// not after the restart guard's 30 s. Only for New.
func WithDurableNodes() Option {
	return Option{name: "WithDurableNodes", newOnly: true, apply: func(o *options) { o.durable = true }}
}

// WithEvictionAllowed accepts nodes that have a memory limit and a policy other
// than noeviction. Such a node may delete a lock that is held, and gives it to the next who
// asks. The default refuses them. Only for New.
func WithEvictionAllowed() Option {
	return Option{name: "WithEvictionAllowed", newOnly: true, apply: func(o *options) { o.evictionAllowed = true }}
}

// WithoutNodeInfo accepts nodes that refuse INFO, as some managed services do. Their age,
// role and memory policy are then taken on trust, and each Locker counts the vote of such a node only
// when it has known it for the restart guard's period. The default
// refuses them. Only for New.
func WithoutNodeInfo() Option {
	return Option{name: "WithoutNodeInfo", newOnly: true, apply: func(o *options) { o.blind = true }}
}

// applyOptions returns base with the options applied, or base itself where there are none.
func applyOptions(base *options, call bool, opts []Option) (*options, error) {
	if len(opts) == 0 {
		return base, nil
	}
	o := *base
	for _, opt := range opts {
		switch {
		case opt.apply == nil:
			return nil, invalid("the zero Option")
		case call && opt.newOnly:
			return nil, invalid("%s is only for New", opt.name)
		case call && opt.onceOnly:
			return nil, invalid("%s is only for New and Once", opt.name)
		}
		opt.apply(&o)
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	return &o, nil
}

func (o *options) leastValidity() time.Duration {
	return leastValidity(o.ttl, o.minValidity, o.maxHold)
}

// check refuses what cannot work and boxes what goes on the wire.
func (o *options) check() error {
	if o.ttl < time.Millisecond {
		return invalid("TTL %s: Redis counts in milliseconds, 1ms is the least", o.ttl)
	}
	o.ttl = o.ttl.Truncate(time.Millisecond)
	switch {
	case o.drift.factor < 0 || o.drift.factor >= 1 || o.drift.slack < 0:
		return invalid("drift %g and %s: want a factor from 0 to 1 and no negative slack", o.drift.factor, o.drift.slack)
	case o.minValidity < 0:
		return invalid("minimum validity %s is negative", o.minValidity)
	case o.drift.validity(o.ttl, 0) <= 0:
		return invalid("TTL %s: the drift allowance of %s leaves nothing of it", o.ttl, o.drift.allowance(o.ttl))
	case o.drift.validity(o.ttl, 0) <= o.leastValidity():
		return invalid("TTL %s: less than the minimum validity %s is left after drift", o.ttl, o.leastValidity())
	case o.nodeTimeout <= 0:
		return invalid("node timeout %s is not positive", o.nodeTimeout)
	case o.maxAttempts < 0:
		return invalid("%d attempts", o.maxAttempts)
	case o.maxHold < 0:
		return invalid("a maximum hold of %s", o.maxHold)
	case o.maxHold > 0 && o.maxHold <= o.minValidity:
		return invalid("a maximum hold of %s is no longer than the minimum validity %s", o.maxHold, o.minValidity)
	case o.fencing && o.retention < o.ttl+2*token.MaxAhead:
		return invalid("TTL %s: tokens are kept for %s, which must be %s longer than any TTL (WithFenceRetention)",
			o.ttl, o.retention, 2*token.MaxAhead)
	case o.guard < 0, o.guard > 0 && o.guard < 2*token.MaxAhead:
		return invalid("restart guard %s: less than %s cannot outlast the difference of the nodes' clocks; 0 turns it off",
			o.guard, 2*token.MaxAhead)
	case o.guard > 0 && o.ttl > o.guard:
		return invalid("TTL %s: longer than the restart guard %s (WithRestartGuard), so a node could forget the lock and "+
			"count again before it ends", o.ttl, o.guard)
	case o.doneTTL < time.Millisecond:
		return invalid("done TTL %s: Redis counts in milliseconds, 1ms is the least", o.doneTTL)
	case o.maxRuns < 0:
		return invalid("%d runs", o.maxRuns)
	case o.backoff == nil:
		return invalid("no back-off")
	case o.logger == nil:
		return invalid("no logger")
	}
	o.ttlArg = o.ttl.Milliseconds()
	return nil
}

// Backoff says how long to wait after the given number of failed attempts in a
// row, the first being 1. It may be called by several goroutines at once.
type Backoff func(attempts int) time.Duration

// Jitter returns a Backoff that waits a random time between shortest and a
// limit that doubles with each attempt from 2 × shortest up to longest, so that
// competitors come apart.
func Jitter(shortest, longest time.Duration) Backoff {
	return func(attempts int) time.Duration {
		limit := longest
		if shift := uint(max(attempts, 1)); shift < 30 {
			limit = min(longest, shortest<<shift)
		}
		if limit <= shortest {
			return max(shortest, 0)
		}
		return shortest + chance.Duration(limit-shortest)
	}
}

// WithObserver has f told what happens: for metrics, traces and tests. f is called for one event
// after the other, in the order in which they happened, by a goroutine that does nothing else,
// so it may take its time and may use the Locker. Where it falls behind, 1024 events are kept and further ones
// dropped; the next that gets through says in Dropped how many. [Locker.Close]
// lets f see what is left, for the node timeout at most. A panic of f is not
// recovered. The default is nobody; it costs nothing. Only for New.
func WithObserver(f func(Event)) Option {
	return Option{name: "WithObserver", newOnly: true, apply: func(o *options) { o.observer = f }}
}
