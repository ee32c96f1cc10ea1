package redlock

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/finding"
	"github.com/quorumlock/redlock/internal/agreement"
	"github.com/quorumlock/redlock/internal/diagnosis"
	"github.com/quorumlock/redlock/internal/endpoint"
	"github.com/quorumlock/redlock/internal/guard"
	"github.com/quorumlock/redlock/internal/printable"
	"github.com/quorumlock/redlock/internal/quorum"
	"github.com/quorumlock/redlock/internal/redisconn"
	"github.com/quorumlock/redlock/internal/token"
)

// NodeStatus is what an Inspector, or a Locker, knows about one node. Its texts are printable, those of findings, too.
type NodeStatus struct {
	Addr      string // without user and password
	TLS       bool   // the URL is rediss://
	Connected bool
	Err       error // why it is not connected, or why its votes do not count (as in Ready); nil: they count

	Product, Version string // "Redis", "Valkey" …; empty: not known
	Role             string // "master", or what it is instead
	Uptime           time.Duration
	AbstainsUntil    time.Time // zero: it does not abstain, or the end is not known (see Err)
	Persistence      string    // "none", "snapshots", "append-only, fsync always" …
	EvictionPolicy   string
	MaxMemory        int64         // bytes; 0: no limit
	ClockOffset      time.Duration // how far its clock is ahead of the median of the nodes
	RoundTrip        time.Duration // of the last reading of its clock
	List             string        // "old list", "new list" or "both lists"; "" without [WithNewNodes]
	Clients          []NodeClients // which clients vote with it, as it says
	Findings         []finding.Finding
}

// NodeClients says with which lists of nodes clients vote, and how many do.
type NodeClients struct {
	Lists [][]string // the addresses of the nodes, as those clients know them: one list, or the old and the new one
	// Clients is how many were seen lately. One that ended without Close counts for a minute or longer: see New.
	Clients int
	// Conflict reports that two could hold one lock: a client with these lists and one with this Locker's.
	Conflict bool
}

// Status asks every connected node for its state and returns what is known about all nodes, in the order in which they
// were given to New. Each node tries, in one script that leaves nothing behind, what locks need, and tries again every
// 5 to 15 s if it may not do it. Status returns within the node timeout, or when ctx is done; if it is done already, it
// asks nobody. Calls at the same time share the answers. [Inspector.Ready] then says whether a majority votes.
func (l *core) Status(ctx context.Context) []NodeStatus {
	if ctx.Err() == nil {
		answered := l.asking.DoChan("", func() (any, error) { //nolint:contextcheck // not until this caller leaves
			l.probeAll()
			return nil, nil
		})
		select {
		case <-answered:
		case <-ctx.Done():
		}
	}
	list := make([]NodeStatus, len(l.nodes))
	for i, n := range l.nodes {
		list[i] = n.status()
	}
	return list
}

// probeAll probes connected nodes within the node timeout. A probe behind another may take longer; Close waits for it.
func (l *core) probeAll() {
	if l.begin(l.ctx) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(l.ctx, l.opts.nodeTimeout)
	var probes sync.WaitGroup
	for _, n := range l.nodes {
		if up, _ := n.conn.State(); up {
			probes.Go(func() {
				if n.reprobe(ctx, guard.FullProbe, n.trialCall(),
					redisconn.Call{Args: []any{"CONFIG", "GET", "timeout"}, Heard: n.noteIdleTimeout},
				) != nil {
					n.conn.CheckSoon() // the check gives the connection up
				}
				n.peers.agreement.Count(ctx, n.index)
			})
		}
	}
	go func() {
		defer l.calls.end()
		defer cancel()
		probes.Wait()
	}()
	<-ctx.Done()
}

// findings returns the findings to be logged, unless the node is about to be connected again, or we disconnected it.
func (n *node) findings() (found []finding.Finding, settled bool) {
	n.reporting.Store(false) // first: what changes from now on is looked at again
	if n.conn.Returns() {
		return nil, false
	}
	found = n.status().Findings
	return found, !n.conn.Stopped()
}

// status returns what is known about the node, and what diagnosis finds in it.
func (n *node) status() NodeStatus {
	connected, down := n.conn.State()
	now := n.opts.clock.local()
	i, learnt, ahead := n.guard.Status()
	st := NodeStatus{
		Addr: n.addr(), TLS: n.conn.TLS(), Connected: connected, Err: down, List: membershipOf(n.peers.electorate, n.index),
		ClockOffset: ahead, RoundTrip: time.Duration(n.roundTrip.Load()),
	}
	if i != nil {
		st.Product, st.Version, st.Role, st.EvictionPolicy, st.MaxMemory = i.Product, i.Version, i.Role, i.Policy, i.MaxMemory
		st.Persistence = i.Persistence()
		if i.Uptime > 0 || i.Refused == "" {
			st.Uptime = i.Uptime + now.Sub(learnt).Truncate(time.Second)
		}
	}
	if a := n.guard.Newcomer(now); connected && a != nil {
		st.AbstainsUntil = a.Until
		if st.Err == nil {
			st.Err = abstains(a, now)
		}
	}
	said := n.peers.agreement.Said(n.index)
	for _, c := range said.Clients {
		st.Clients = append(st.Clients, NodeClients{Lists: c.Lists, Clients: c.Count, Conflict: c.Conflict})
	}
	st.Findings = diagnosis.Findings(n.facts(i, &st, said))
	for at := range st.Findings { // whoever has written what they are about
		f := &st.Findings[at]
		f.Text, f.Remedy = printable.Text(f.Text), printable.Text(f.Remedy)
	}
	return st
}

// facts gathers what the findings go by. said: what the node said of lists.
func (n *node) facts(i *guard.Info, st *NodeStatus, said agreement.Said) *diagnosis.Facts {
	f := &diagnosis.Facts{MayRefuseInfo: n.opts.node.AllowNoInfo, MayEvict: n.opts.node.AllowEviction}
	f.Trouble, f.Error, f.Reply = troubleOf(st.Err)
	if odd := n.odd.Load(); st.Connected && odd != nil {
		f.Odd = odd.err.Error()
	}
	if i != nil {
		n.addInfo(f, i)
	}
	if i != nil && st.Connected { // else these may have changed
		f.Uptime = i.Uptime
		f.SettingsUnsafe, f.Settings, f.SameSettings = n.peers.agreement.Disagreement(n.index)
		n.addTrial(f)
		n.addLists(f, said)
	}
	return f
}

// addInfo adds what the node says of itself.
func (n *node) addInfo(f *diagnosis.Facts, i *guard.Info) {
	f.InfoRefused, f.ConfigRefused = i.Refused, i.Blind
	f.Role, f.Promoted = i.Role, i.Promoted
	f.AppendOnly, f.Fsync, f.NoFsyncOnRewrite = i.AOF, i.Fsync, i.Lazy
	f.UsedMemory, f.MaxMemory, f.Policy = i.UsedMemory, i.MaxMemory, i.Policy
	f.IdleTimeout, f.ProbePause = n.idleTimeout.Load(), int64(longestPause/time.Second)
	if f.RecordKey = n.rules.RecordKey(); i.Unkept != nil {
		f.Unkept = i.Unkept.Error()
	}
}

// addTrial adds what a script may not do, and the largest token if it is too large.
func (n *node) addTrial(f *diagnosis.Facts) {
	t, now := n.trial.Load(), n.opts.clock.now()
	if f.Token = n.tokenAhead(); f.Token > 0 {
		f.TokenAhead, f.FloorKey = n.tokens.ahead(f.Token, now), n.rules.FloorKey()
		f.TokenAlone, f.TokenLast = n.peers.fewAhead(), f.Token == token.Max
	}
	if refusal := n.refusal(); refusal != nil {
		f.ScriptRefused, f.ScriptReply = refusal.Error(), refusal.Code
	}
	f.Barred = n.bars() != nil && n.peers.barred()
	if t != nil {
		f.Strange, f.Undeclared = t.strange, t.undeclared
	}
	if f.Strange != "" {
		f.ScriptRefused = ""
	}
}

// tokenAhead returns the node's largest token, or its floor, if it is too far ahead to be followed, otherwise 0.
func (n *node) tokenAhead() (largest int64) {
	largest = n.tokens.Below(n.index, 0)
	if t := n.trial.Load(); t != nil {
		largest = max(largest, t.largest)
	}
	if n.opts.fencing && n.tokens.TooFarAhead(largest, n.tokens.micros(n.opts.clock.now())) {
		return largest
	}
	return 0
}

// fewAhead reports whether such nodes, with those that cannot be asked, are too few to have given anybody a lock.
func (p *peers) fewAhead() bool {
	return !p.electorate.MayHold(quorum.Where(len(p.nodes), func(i int) bool {
		up, _ := p.nodes[i].conn.State()
		return !up || p.nodes[i].tokenAhead() > 0
	}))
}

// barred reports whether such nodes, with those that do not vote, leave no majority.
func (p *peers) barred() bool {
	return p.electorate.Block(quorum.Where(len(p.nodes), func(i int) bool {
		n := p.nodes[i]
		_, down := n.conn.State()
		return down != nil || n.guard.Newcomer(n.opts.clock.local()) != nil || n.bars() != nil
	}))
}

// addLists adds the lists of nodes with which clients vote, as the node says.
func (n *node) addLists(f *diagnosis.Facts, said agreement.Said) {
	f.Own, f.OwnInWords, f.Down = said.Own, listsInWords(said.Own), n.peers.whyDown()
	f.Clash, f.Registered = said.Clash, !n.opts.onlyLooks && n.peers.agreement.Refusal() == nil
	for _, c := range said.Clients {
		f.Clients = append(f.Clients, diagnosis.Clients{
			Lists: c.Lists, InWords: listsInWords(c.Lists) + apartInWords(c.Apart),
			Conflict: c.Conflict, Elsewhere: c.Apart != nil,
			Seen: int(max(c.Within, c.Gone) / time.Second), Gone: c.Gone > 0,
		})
	}
	if said.Refused != nil {
		f.ListsRefused = said.Refused.Error()
	}
}

// whyDown says in a few words why nodes do not answer, by address.
func (p *peers) whyDown() map[string]string {
	why := make(map[string]string)
	for _, n := range p.nodes {
		if _, down := n.conn.State(); down != nil {
			word, more := NodeError{Outcome: outcomeFailed, Err: down}.short()
			why[n.addr()] = cmp.Or(lookedUp(down), more, word)
		}
	}
	return why
}

// noteIdleTimeout takes the reply to CONFIG GET.
func (n *node) noteIdleTimeout(reply any, failed error) {
	if failed != nil {
		return
	}
	said, _ := redis.StringMap(reply, nil)
	seconds, _ := strconv.ParseInt(said["timeout"], 10, 64) // 0 if it is refused
	n.idleTimeout.Store(seconds)
}

// Ready returns nil as soon as the votes of a majority of the nodes count, so that a free lock can be acquired: at
// once, or when enough nodes are connected, no longer abstain, and do what locks need, as far as [Inspector.Status]
// has tried that. They then count for a client that starts now as well, which is up to a second later than for a Locker
// that has seen the nodes start; but Ready answers for this Locker alone where nodes refuse INFO, or have kept their
// data through a restart (TrustDisk of [NodeConfig]). It sends nothing: it goes by what the Locker knows of the nodes,
// which it notices with each request, and by itself every 5 to 15 s. If ctx is done, it answers by the present state.
//
// Otherwise the error is a [*QuorumError] that satisfies errors.Is for [ErrNoQuorum] and says for each node whether its
// vote counts, and if not, why: its Outcome is "votes", "abstained" with an [ErrNodeAbstains], or "failed". Ready
// returns it when ctx is done; then it satisfies errors.Is for ctx.Err() as well. Ready does not wait for ctx if there
// can be no majority before somebody changes something: if too many nodes refuse the password or the user (NOAUTH,
// WRONGPASS, NOPERM …; not with Credentials of [NodeConfig], which is asked anew), are refused themselves
// ([ErrNodeRefused]), have a certificate that is not accepted or do not accept this client's (not where a function of
// TLS in [NodeConfig] decides, which is asked anew), or are no Redis servers. While this Locker is refused because of
// other clients' lists of nodes, Ready waits, too, and its error is a [*ListConflictError]. The error satisfies
// errors.Is for [ErrClosed] after [Inspector.Close], and from [Locker.Shutdown] on.
func (l *core) Ready(ctx context.Context) error {
	for {
		if l.calls.refused() || l.isShut(ctx) != nil {
			return &opError{op: "ready", reason: ErrClosed}
		}
		changed := l.peers.states.next() // before the states are read
		now := l.opts.clock.local()
		seen := l.readiness(now, (*node).forNew)
		conflict := l.mayLock()
		switch {
		case conflict != nil && ctx.Err() != nil:
			return &opError{op: "ready", reason: conflict, cause: endOf(ctx, ctx.Err())}
		case conflict != nil: // it ends when the other clients have ended
		case l.electorate.Suffice(seen.votes):
			return nil
		case l.electorate.Block(seen.refused):
			seen.failure.detail = "no majority is possible until somebody changes that"
			return seen.failure
		case ctx.Err() != nil:
			seen.failure.ctx = endOf(ctx, ctx.Err())
			return seen.failure
		}
		l.awaitStates(ctx, changed, seen)
	}
}

// readiness is what the Locker knows of whether the nodes may vote.
type readiness struct {
	failure *QuorumError
	votes   quorum.Set // the nodes whose votes count
	refused quorum.Set // those that are refused until somebody changes something
	until   time.Time  // when the first abstention ends; zero: there is none whose end is known
}

// forUs returns what keeps this Locker from counting the vote of the node, which is connected.
func (n *node) forUs(time.Time) (*guard.Abstention, error) { return n.guard.Abstention(), nil }

// forNew returns what keeps a client that starts now from counting it, too, or the node from granting a free lock.
func (n *node) forNew(now time.Time) (*guard.Abstention, error) {
	return n.guard.Newcomer(now), n.bars()
}

// readiness says whose votes count, and why the others' do not. objections is forUs or forNew.
func (l *core) readiness(now time.Time, objections func(*node, time.Time) (*guard.Abstention, error)) readiness {
	seen := readiness{failure: &QuorumError{Op: "ready", reason: ErrNoQuorum}}
	for i, n := range l.nodes {
		part := NodeError{Addr: n.addr(), List: membershipOf(l.electorate, i), Outcome: outcomeVotes}
		_, down := n.conn.State()
		a, barred := objections(n, now)
		switch {
		case down != nil:
			part.Outcome, part.Err = outcomeFailed, down
		case a != nil && !a.Over(now):
			part.Outcome = outcomeAbstained
			part.because(abstains(a, now))
			if !a.Until.IsZero() && (seen.until.IsZero() || a.Until.Before(seen.until)) {
				seen.until = a.Until
			}
		case barred != nil:
			part.Outcome, part.Err = outcomeFailed, barred
		default:
			seen.votes = seen.votes.With(i)
		}
		if lasting(part.Err, n.opts) {
			seen.refused = seen.refused.With(i)
		}
		seen.failure.Nodes = append(seen.failure.Nodes, part)
	}
	seen.failure.measure(l.electorate, seen.votes)
	return seen
}

// lasting reports whether no time and no new attempt, for which a function may name another user, removes the reason.
func lasting(why error, o *options) bool {
	var mismatch endpoint.MismatchError
	asks := o.node.Credentials != nil && errors.Is(why, ErrNodeDown)
	mayPass := errors.As(why, &mismatch) && o.certifiesAnew(mismatch.Kind) ||
		asks && (errors.As(why, new(*ReplyError)) || errors.As(why, new(endpoint.CredentialsError)))
	return !mayPass && endpoint.Lasts(why)
}

// certifiesAnew reports whether a function decides about a certificate: at the next attempt it may decide otherwise.
func (o *options) certifiesAnew(kind endpoint.MismatchKind) bool {
	switch {
	case o.node.TLS == nil:
		return false
	case kind == endpoint.OurCertificate:
		return o.node.TLS.GetClientCertificate != nil
	default:
		return kind == endpoint.Certificate && (o.node.TLS.VerifyConnection != nil || o.node.TLS.VerifyPeerCertificate != nil)
	}
}

// awaitStates returns when the state of a node has changed, when the first abstention ends, or when the wait is over.
func (l *core) awaitStates(ctx context.Context, changed <-chan struct{}, seen readiness) {
	for _, n := range l.nodes {
		n.conn.Wanted()
	}
	var end <-chan time.Time
	if !seen.until.IsZero() {
		timer := time.NewTimer(max(time.Millisecond, seen.until.Sub(l.opts.clock.local())))
		defer timer.Stop()
		end = timer.C
	}
	select {
	case <-changed:
	case <-end:
	case <-ctx.Done():
	case <-l.scope(ctx).Done():
	}
}
