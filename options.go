package redlock

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/redlock/internal/agreement"
	"github.com/quorumlock/redlock/internal/chance"
	"github.com/quorumlock/redlock/internal/token"
)

// options are the settings of a Locker or of one call. They never change after applyOptions, so that calls and holds
// can share them.
type options struct {
	ttl         time.Duration
	minValidity time.Duration // 0: a quarter of the TTL, or of the maximum hold
	drift       drift
	backoff     Backoff
	maxAttempts int           // 0: no limit
	maxWait     time.Duration // 0: no limit
	renew       bool          // extend the hold until it is unlocked
	maxHold     time.Duration // 0: no limit
	fencing     bool          // hand out tokens
	async       bool          // Unlock does not wait for the nodes
	doneTTL     time.Duration // Once: how long the register of runs is kept
	maxRuns     int           // Once; 0: no limit

	// Only for New.
	nodeTimeout time.Duration
	prefix      string
	label       string
	dialer      func(ctx context.Context, network, address string) (net.Conn, error)
	dialerID    any // the same for Lockers with the same WithDialer; nil: none was given
	tls         *tls.Config
	credentials credentials // nil: those of the URLs
	asks        bool        // WithCredentials was given
	logger      *slog.Logger
	warns       bool // the logger logs warnings
	observer    func(Event)
	retention   time.Duration // how long nodes keep tokens
	guard       time.Duration // how long a node that may have forgotten abstains; 0: not at all
	durable     bool          // trust nodes that say that they flush every change to disk
	onlyLooks   bool          // WithoutLocking

	migrates  bool     // WithMigration was given
	migrateTo []string // the URLs of the nodes that replace those of New

	retentionSet, guardSet bool // by an option; otherwise they follow the TTL

	evictionAllowed bool
	withoutInfo     bool // accept nodes that refuse INFO
	clock           clock

	ttlArg any // the TTL in ms, boxed for the wire
}

// credentials returns the user and the password for a node: see WithCredentials.
type credentials func(ctx context.Context, addr string) (user, password string, err error)

// The library's own keys on the nodes, after the prefix. No lock's name may begin with ownNames.
const (
	ownNames   = "redlock:"
	tokensName = ownNames + "tokens"
	// The channels have no keys, but the same beginning.
	ownChannels = ownNames + "wake:"
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
		label:       agreement.DefaultLabel(),
		logger:      slog.New(slog.DiscardHandler),
		clock:       systemClock(),
	}
}

// connectTimeout bounds dialling, the TLS handshake and the first commands. It is also how long a node may stay silent
// before its connection is replaced.
func (o *options) connectTimeout() time.Duration { return max(time.Second, 4*o.nodeTimeout) }

// lease is for how long a node that hands a lock over keeps it until the waiter asks or extends: so one that is stopped
// or cut off does not block the lock for its TTL. It is enough for a message and a request that takes the node timeout.
func (o *options) lease() time.Duration {
	return max(time.Second, (4 * o.nodeTimeout).Truncate(time.Millisecond)) // what the channel says
}

// leastLeft returns how much must be left of the term of a hold that was waited for. A lease suffices only if an
// extension follows in good time.
func (o *options) leastLeft(term time.Duration) time.Duration {
	switch {
	case term >= o.ttl:
		return leastValidity(o.ttl, o.minValidity, o.maxHold)
	case !o.renew || o.maxHold > 0: // at its maximum, a hold is kept for the rest of what it has
		return term
	default:
		return max(term/2, o.minValidity)
	}
}

// Option changes one setting: for all calls of the Locker if given to [New], or for one call. A call returns
// [ErrInvalid] for an option that only New accepts.
type Option struct {
	name     string
	newOnly  bool
	onceOnly bool // only New, Once and Forget accept it
	waits    bool // calls that ask once refuse it
	apply    func(*options)
}

// WithTTL sets for how long the nodes keep a lock that is not extended, in whole milliseconds. The default is 10 s. The
// TTL bounds how long a crashed holder blocks other clients. It does not limit how long the work may take, because the
// hold is renewed.
//
// Given to New, a TTL above 30 s makes the restart guard as long as itself ([WithRestartGuard]) and the retention of
// tokens twice as long ([WithFenceRetention]), unless these are set. A call returns [ErrInvalid] for a TTL that is
// longer than its Locker's restart guard or, with tokens, than its retention less 2 s.
func WithTTL(ttl time.Duration) Option {
	return Option{name: "WithTTL", apply: func(o *options) { o.ttl = ttl }}
}

// WithMinValidity sets how much of the TTL must be left when a majority has granted; with less, the attempt fails. The
// default is a quarter of the TTL, or of the maximum hold if that is shorter.
func WithMinValidity(d time.Duration) Option {
	return Option{name: "WithMinValidity", apply: func(o *options) { o.minValidity = d }}
}

// WithDrift sets how much to subtract from each TTL because a node's clock may run faster: factor × TTL + slack. The
// default is 0.01 and 2 ms, as in the Redis documentation.
func WithDrift(factor float64, slack time.Duration) Option {
	return Option{name: "WithDrift", apply: func(o *options) { o.drift = drift{factor, slack} }}
}

// WithBackoff sets when a waiting Lock asks the nodes again if no node notifies it that its turn has come. The default
// is Jitter(10*time.Millisecond, 250*time.Millisecond). Lock asks less often while it is far back in the queue, and
// earlier when the holder's TTL ends or when it has some of the votes. Calls that ask once refuse it.
func WithBackoff(b Backoff) Option {
	return Option{name: "WithBackoff", waits: true, apply: func(o *options) { o.backoff = b }}
}

// WithMaxAttempts limits how often Lock asks the nodes before it gives up with the last attempt's error. With 1, Lock
// does not wait at all, like TryLock. With more, the time that Lock spends in the local queue, behind other goroutines
// of the process that wait for the name, is limited only by the context and by [WithMaxWait]. The default, 0, sets no
// limit. Calls that ask once refuse it.
func WithMaxAttempts(n int) Option {
	return Option{name: "WithMaxAttempts", waits: true, apply: func(o *options) { o.maxAttempts = n }}
}

// WithMaxWait limits how long a call waits for a lock, apart from the work: a deadline of ctx bounds both in
// [Locker.Do] and [Locker.Once], so that a function that got its lock late is cut off. It applies to all calls that
// wait; for [Locker.LockAll], and for a Mutex with all its goroutines, to the whole wait. When d has passed, the call
// withdraws as at the end of ctx, and returns the error of the last attempt, which then satisfies errors.Is for
// [ErrMaxWait] as well, and not for [context.DeadlineExceeded]. The hold, its events and the context of the function
// that runs are not bounded by d. The default, 0, sets no limit but that of ctx. Calls that ask once refuse it.
func WithMaxWait(d time.Duration) Option {
	return Option{name: "WithMaxWait", waits: true, apply: func(o *options) { o.maxWait = d }}
}

// WithoutRenewal lets the hold end with its TTL. By default it is extended every third of the TTL until it is unlocked.
func WithoutRenewal() Option {
	return Option{name: "WithoutRenewal", apply: func(o *options) { o.renew = false }}
}

// WithMaxHold ends a hold with [ErrMaxHold] at the latest d after the attempt that acquired it began, or after it was
// acquired if Lock waited for it, however often it is extended. Done and the contexts then tell the work to stop, and
// until it has stopped, the nodes keep the lock: until Unlock, which returns an error as after any end, or until the
// function of Do or Once has returned. They do so for the rest of the validity at most, which nothing extends any more.
// The default, 0, sets no limit.
func WithMaxHold(d time.Duration) Option {
	return Option{name: "WithMaxHold", apply: func(o *options) { o.maxHold = d }}
}

// WithoutFencing turns fencing tokens off. A free lock is then acquired with a plain SET NX PX, the command that other
// Redlock clients send. By default each hold has a token.
func WithoutFencing() Option {
	return Option{name: "WithoutFencing", apply: func(o *options) { o.fencing = false }}
}

// WithAsyncUnlock makes Unlock return as soon as the release is on its way, which saves the caller a round trip. The
// hold has ended then. Each node executes the requests of one Locker in order, so the same Locker can lock the name
// again at once. The caller does not learn the nodes' answers: Unlock returns nil even if a majority is unreachable or
// no longer had the lock. The nodes release the lock as soon as they can, at the latest at the end of the TTL. By
// default Unlock waits for the answers.
func WithAsyncUnlock() Option {
	return Option{name: "WithAsyncUnlock", apply: func(o *options) { o.async = true }}
}

// WithFenceRetention sets for how long the nodes remember the token of a name that is no longer locked. The default is
// one minute, or twice the TTL that is given to New if that is longer. It must be at least 2 s longer than any TTL in
// use, and all clients that lock the same names should set the same. Only for New.
func WithFenceRetention(d time.Duration) Option {
	return Option{name: "WithFenceRetention", newOnly: true, apply: func(o *options) {
		o.retention, o.retentionSet = d, true
	}}
}

// WithDoneTTL sets for how long after a successful run of [Locker.Once] no client begins another, and for how long a
// failed run is remembered. The default is 2 h, the minimum twice the TTL. It should be longer than the time between
// the first and the last machine's start of the same run, and shorter than the time to the next run, unless each run
// has its own name (docs/recipes.md). All clients that run the job must set the same. Only for New, Once and
// Forget.
func WithDoneTTL(d time.Duration) Option {
	return Option{name: "WithDoneTTL", onceOnly: true, apply: func(o *options) { o.doneTTL = d }}
}

// WithMaxRuns limits how many runs [Locker.Once] begins within the done TTL until one succeeds. The default is 3; 0
// sets no limit. Only for New and Once.
func WithMaxRuns(n int) Option {
	return Option{name: "WithMaxRuns", onceOnly: true, apply: func(o *options) { o.maxRuns = n }}
}

// WithNodeTimeout sets how long a node may take to answer before it counts as failed. The default is 250 ms. TryLock,
// Extend, Unlock and Adopt return within it. Only for New.
func WithNodeTimeout(d time.Duration) Option {
	return Option{name: "WithNodeTimeout", newOnly: true, apply: func(o *options) { o.nodeTimeout = d }}
}

// WithPrefix sets a prefix: the key of a lock on the nodes is the prefix and the name. The default is no prefix. Only
// for New.
func WithPrefix(prefix string) Option {
	return Option{name: "WithPrefix", newOnly: true, apply: func(o *options) { o.prefix = prefix }}
}

// WithOwnerLabel sets the text by which people recognize who holds a lock: errors, [Locker.Inspect] and the command
// show it beside the owner. The default is the host's name, a slash and the process id: "web-3/812". It has 64 bytes at
// most, all printable; "" is no label. The nodes keep it while the Locker is connected and for two minutes after, or
// twice the restart guard if that is longer. Only for New.
func WithOwnerLabel(text string) Option {
	return Option{name: "WithOwnerLabel", newOnly: true, apply: func(o *options) { o.label = text }}
}

// WithDialer replaces the function that connects to nodes, for example to use a tunnel, or to ask a Sentinel, about
// which docs/operations.md says what is not promised. TLS and authentication run over the connection that it returns.
// The default is that of package net. Only for New.
func WithDialer(dial func(ctx context.Context, network, address string) (net.Conn, error)) Option {
	id := new(byte) // functions cannot be compared
	return Option{name: "WithDialer", newOnly: true, apply: func(o *options) { o.dialer, o.dialerID = dial, id }}
}

// WithTLSConfig sets the TLS configuration for rediss:// nodes. The default verifies the server with the system's roots
// and requires TLS 1.2.
//
// The functions of the configuration are called each time a node is connected, so that certificates can change while
// the Locker is in use. If one fails, the node is down for that reason, and connecting is tried again as always.
// VerifyConnection gets the node's host (or ServerName) as the ServerName of its argument, an IP address, too, which
// crypto/tls leaves out: so it can verify the node with authorities that change. Only for New.
func WithTLSConfig(config *tls.Config) Option {
	return Option{name: "WithTLSConfig", newOnly: true, apply: func(o *options) { o.tls = config }}
}

// WithCredentials sets a function that is asked for the user and the password each time a node is connected, so that
// they can change while the Locker is in use: passwords that are rotated, tokens that expire. addr is the node's
// address as in [NodeStatus], without user and password. An empty user means the nodes' default user, an empty password
// no authentication. A connection in use stays as it is until it is lost.
//
// Several goroutines may call the function at once, one for each node. It should return when ctx is done, which is
// after 10 s, or at Close; what it returns later is for the next attempt. If it fails, the node is down for that
// reason, its error shows in errors and logs, and connecting is tried again as always: first after some 10 ms, then
// about once a second while calls need the node, and less often while none does.
//
// URLs must then have neither user nor password: New returns an error that satisfies errors.Is for [ErrInvalid]. By
// default the URLs have both. Only for New.
func WithCredentials(f func(ctx context.Context, addr string) (user, password string, err error)) Option {
	return Option{name: "WithCredentials", newOnly: true, apply: func(o *options) { o.credentials, o.asks = f, true }}
}

// WithLogger sets the logger. The default logs nothing. The levels are: Error for holds that were lost; Warn for
// renewals and unlocks that failed, for holds that the program dropped without Unlock, for the loss of the majority,
// and for what is wrong with a node and what to do about it; Info for nodes whose votes count (again), and for a
// majority that is there again; Debug for every attempt, hold and end. Where many holds fail, the first are logged in
// full, and the others summed up: after a second, and then after pauses that double up to 30 s. At level Debug, each
// has a line as well. Close logs what is pending. The log contains no secrets: no passwords, and owners only in errors.
// Only for New.
func WithLogger(l *slog.Logger) Option {
	return Option{name: "WithLogger", newOnly: true, apply: func(o *options) {
		o.logger = l
		o.warns = l != nil && l.Enabled(context.Background(), slog.LevelWarn)
	}}
}

// WithRestartGuard sets for how long the votes of a node do not count after it may have forgotten its earlier votes:
// after a restart, whatever it keeps on disk (but see [WithDurableNodes]), after the promotion of a replica, after
// FLUSHALL, and after its clock was set forward. The default is 30 s, or the TTL that is given to New if that is
// longer. So masters that have just been started grant nothing for that long. No TTL may be longer, and all clients
// that lock the same names must set the same: [NodeStatus] tells of clients that do not. 0 turns the guard off, for
// development: then two clients can hold one lock if a majority of the nodes restart within a TTL. Only for New.
func WithRestartGuard(d time.Duration) Option {
	return Option{name: "WithRestartGuard", newOnly: true, apply: func(o *options) { o.guard, o.guardSet = d, true }}
}

// WithDurableNodes trusts what nodes keep on disk. It applies to a node that is set to flush every change before it
// answers (appendonly yes, appendfsync always, no-appendfsync-on-rewrite no), and was set so when this Locker last saw
// it. After a restart, the votes of such a node count at once for a Locker that knew it before with the same record;
// for a Locker that first connects after the restart, the node abstains like any other. The default is to trust no
// file.
//
// It rests on an assumption that no client can check: appendonly and appendfsync do not change while a node runs, and
// no node is ever started from a replica's file, from a backup, or from any file but its own last one. If that is not
// true, two clients can hold one lock. In return, after a restart of a majority, clients that knew the nodes get locks
// at once instead of after the restart guard's 30 s. Only for New.
func WithDurableNodes() Option {
	return Option{name: "WithDurableNodes", newOnly: true, apply: func(o *options) { o.durable = true }}
}

// WithMigration changes the nodes while locks are in use. nodes of New is the old list, to the new one. A call then
// needs a majority of the old list and a majority of the new one: to acquire, to have its token accepted, to extend and
// to unlock. A node that is in both lists, under the same URL, has one connection and votes in both.
//
// Clients with the old list alone and clients with both lists exclude each other, as do clients with both lists and
// those with the new list alone; the first and the last do not. So change the configuration of all clients to both
// lists, wait until none is left that has the old one alone, and only then change it to the new list
// (docs/changing-nodes.md). Holds that are taken before a step stay valid through it, and each step can be taken back.
// Together the lists may have 31 nodes. The default is one list. Only for New.
func WithMigration(to []string) Option {
	return Option{name: "WithMigration", newOnly: true, apply: func(o *options) {
		o.migrates, o.migrateTo = true, slices.Clone(to)
	}}
}

// WithoutLocking makes a Locker that only looks: for monitoring, and for administrators. It can [Locker.Inspect] and
// list locks, watch nodes, and [Locker.ForceUnlock]; calls that acquire a lock return [ErrInvalid]. The nodes do not
// count it among the clients, and New does not refuse it if its lists of nodes conflict with those of clients that are
// at work: [NodeStatus] tells of that. Only for New.
func WithoutLocking() Option {
	return Option{name: "WithoutLocking", newOnly: true, apply: func(o *options) { o.onlyLooks = true }}
}

// WithEvictionAllowed accepts nodes that have a memory limit and an eviction policy other than noeviction. Such a node
// may delete a lock that is held, and then grant it to another client. The default refuses such nodes. Only for New.
func WithEvictionAllowed() Option {
	return Option{name: "WithEvictionAllowed", newOnly: true, apply: func(o *options) { o.evictionAllowed = true }}
}

// WithoutNodeInfo accepts nodes that refuse INFO, as some managed services do. Their age, role and memory policy are
// then not checked, and each Locker counts the vote of such a node only when it has known the node for the restart
// guard's period. The default refuses such nodes. Only for New.
func WithoutNodeInfo() Option {
	return Option{name: "WithoutNodeInfo", newOnly: true, apply: func(o *options) { o.withoutInfo = true }}
}

// applyOptions returns a validated copy of base with the options applied, or base itself if there are none. call: the
// options were given to a call, not to New.
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
	if !call {
		o.followTTL()
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	if !call {
		return &o, o.unusable()
	}
	return &o, nil
}

// unusable returns why no call of Once with the options of New could succeed, or nil. The default is nobody's mistake.
func (o *options) unusable() error {
	usual := defaults()
	if o.nodeTimeout > max(o.ttl, usual.nodeTimeout) {
		o.logger.Warn("the node timeout is longer than the TTL: an attempt may take longer than a lock lasts",
			"timeout", o.nodeTimeout, "ttl", o.ttl)
	}
	if o.doneTTL < usual.doneTTL {
		return o.checkDoneTTL()
	}
	return nil
}

func (o *options) checkDoneTTL() error {
	if o.doneTTL < 2*o.ttl {
		return invalid("done TTL %s: less than twice the TTL %s, so a crashed run could be forgotten before its lock is free",
			o.doneTTL, o.ttl)
	}
	return nil
}

// onlyOnce returns an error if calls that ask once were given options for those that wait.
func onlyOnce(opts []Option) error {
	for _, o := range opts {
		if o.waits {
			return invalid("%s is for calls that wait, and this one asks once", o.name)
		}
	}
	return nil
}

// followTTL makes the restart guard and the retention fit a long TTL, unless they are set: the guard is then the least
// that is safe, and the retention is twice the guard, as by default.
func (o *options) followTTL() {
	if !o.guardSet {
		o.guard = max(o.guard, o.ttl)
	}
	if !o.retentionSet && o.ttl <= maxTTL {
		o.retention = max(o.retention, 2*o.ttl)
	}
}

// conflicts returns an error that names every setting that is too short for the TTL, and what it must be.
func (o *options) conflicts() error {
	var why, set []string
	if o.guard > 0 && o.ttl > o.guard {
		why = append(why, fmt.Sprintf("longer than the restart guard of %s, so a node could forget the lock and count again "+
			"before it ends", o.guard))
		set = append(set, fmt.Sprintf("WithRestartGuard to %s or more", o.ttl))
	}
	const room = 2 * token.MaxAhead
	if o.fencing && (o.retention < room || o.retention-room < o.ttl) { // o.ttl+room could overflow
		why = append(why, fmt.Sprintf("tokens are kept for %s, which must be %s longer than any TTL", o.retention, room))
		set = append(set, fmt.Sprintf("WithFenceRetention to %s or more", o.ttl+room))
	}
	if why == nil {
		return nil
	}
	return invalid("TTL %s: %s: for New, set %s", o.ttl, strings.Join(why, "; and "), strings.Join(set, ", and "))
}

// maxTTL keeps sums of times from overflowing.
const maxTTL = 366 * 24 * time.Hour

// check validates the options, and boxes the TTL so that sending it allocates nothing.
func (o *options) check() error {
	if o.ttl < time.Millisecond {
		return invalid("TTL %s: Redis counts in milliseconds, 1ms is the least", o.ttl)
	}
	if o.ttl > maxTTL {
		return invalid("TTL %s: the most is a year", o.ttl)
	}
	o.ttl = o.ttl.Truncate(time.Millisecond)
	switch {
	case o.drift.factor < 0 || o.drift.factor >= 1 || o.drift.slack < 0:
		return invalid("drift %g and %s: want a factor from 0 to 1 and no negative slack", o.drift.factor, o.drift.slack)
	case o.minValidity < 0:
		return invalid("minimum validity %s is negative", o.minValidity)
	case o.drift.validity(o.ttl, 0) <= 0:
		return invalid("TTL %s: the drift allowance of %s leaves nothing of it", o.ttl, o.drift.allowance(o.ttl))
	case o.drift.validity(o.ttl, 0) <= leastValidity(o.ttl, o.minValidity, o.maxHold):
		return invalid("TTL %s: less than the minimum validity %s is left after drift",
			o.ttl, leastValidity(o.ttl, o.minValidity, o.maxHold))
	case o.nodeTimeout <= 0:
		return invalid("node timeout %s is not positive", o.nodeTimeout)
	case o.maxAttempts < 0:
		return invalid("the maximum of %d attempts is negative", o.maxAttempts)
	case o.maxWait < 0:
		return invalid("the maximum wait %s is negative", o.maxWait)
	case o.maxHold < 0:
		return invalid("the maximum hold %s is negative", o.maxHold)
	case o.maxHold > 0 && o.maxHold <= o.minValidity:
		return invalid("the maximum hold %s is not longer than the minimum validity %s", o.maxHold, o.minValidity)
	case o.guard < 0, o.guard > 0 && o.guard < 2*token.MaxAhead:
		return invalid("restart guard %s: less than %s cannot outlast the difference of the nodes' clocks; 0 turns it off",
			o.guard, 2*token.MaxAhead)
	case o.doneTTL < time.Millisecond:
		return invalid("done TTL %s: Redis counts in milliseconds, 1ms is the least", o.doneTTL)
	case o.maxRuns < 0:
		return invalid("the maximum of %d runs is negative", o.maxRuns)
	case o.backoff == nil:
		return invalid("the back-off is nil")
	case o.logger == nil:
		return invalid("the logger is nil")
	case o.asks && o.credentials == nil:
		return invalid("the function for credentials is nil")
	}
	if err := agreement.CheckLabel(o.label); err != nil {
		return invalid("%v", err)
	}
	if err := o.conflicts(); err != nil {
		return err
	}
	o.ttlArg = o.ttl.Milliseconds()
	return nil
}

// Backoff returns how long to wait after the given number of failed attempts in a row, counted from 1. Several
// goroutines may call it at once.
type Backoff func(attempts int) time.Duration

// Jitter returns a Backoff that waits a random time between shortest and a limit that doubles with each attempt from 2
// × shortest up to longest, so that competing clients do not ask at the same moments.
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

// WithObserver calls f for every event: for metrics, traces and tests. A goroutine that does nothing else calls f for
// one event after the other, in the order in which they happened, so f may take its time and may use the Locker. If f
// falls behind, 16384 events are queued and further ones dropped; the next event that is queued says in Dropped how
// many. [Locker.Close] lets f see the queued events, for the node timeout at most. A panic of f is not recovered. The
// default is no observer, which costs nothing. Only for New.
func WithObserver(f func(Event)) Option {
	return Option{name: "WithObserver", newOnly: true, apply: func(o *options) { o.observer = f }}
}
