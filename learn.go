package redlock

import (
	"context"
	"crypto/sha1" //nolint:gosec // the name that Redis gives a script; no secret
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

// standing is what is known about a node's fitness to vote.
type standing struct {
	abstains atomic.Pointer[abstention] // nil: its votes count. Read for every answer

	turn chan struct{} // full while somebody learns; a channel, since they ask the node meanwhile

	mu     sync.Mutex // guards the fields below; never held while the node is asked
	life   life       // set by who has the turn
	facts  *facts     // nil: never learnt
	at     time.Time  // when facts were learnt
	astray bool       // its clock is too far off the others'
	clock  time.Duration
	trip   time.Duration // the last round trip
	said   string        // the findings that were logged last
	heard  string        // the epoch of the node that the listener's connection leads to
}

// peers are the nodes of a Locker, as they see each other.
type peers struct {
	mu     sync.Mutex       // guards the fields below
	nodes  []*node          // those that have been started
	claims map[string]*node // by run_id and replid: who is connected there
}

func (p *peers) add(n *node) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n.peers = p
	p.nodes = append(p.nodes, n)
}

func (p *peers) all() []*node {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.nodes
}

// claim refuses a second node at one server.
func (p *peers) claim(n *node, f *facts) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.claims == nil {
		p.claims = make(map[string]*node)
	}
	for _, id := range []string{f.runID, f.replID} {
		if id == "" {
			continue
		}
		if first := p.claims[id]; first != nil && first != n {
			return fmt.Errorf("%w: %w %s: it would have two votes", ErrNodeRefused, errTwice, first.target)
		}
		p.claims[id] = n
	}
	return nil
}

// leave gives back what n claimed.
func (p *peers) leave(n *node) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, owner := range p.claims {
		if owner == n {
			delete(p.claims, id)
		}
	}
}

// twice returns an error where New was given one server under two addresses.
func (p *peers) twice() error {
	for _, n := range p.all() {
		n.mu.Lock()
		down := n.down
		n.mu.Unlock()
		if errors.Is(down, errTwice) {
			return invalid("node %d: %s: %v", n.index+1, n.target, unwrapDown(down))
		}
	}
	return nil
}

// unwrapDown leaves out that a node is not connected, where it is clear.
func unwrapDown(err error) string {
	return strings.TrimPrefix(err.Error(), ErrNodeDown.Error()+": ")
}

// measured takes note of a node's clock, and judges the clocks of all by it.
func (n *node) measured(micros int64, asked, now instant) {
	n.fence.measured(n.index, micros, asked, now)
	offsets, wrong := n.fence.disagreement()
	all := n.peers.all()
	strayed := false
	for _, m := range all {
		strayed = m.setClock(offsets[m.index], wrong.has(m.index)) || strayed
	}
	n.standing.mu.Lock()
	n.standing.trip = now.local.Sub(asked.local)
	n.standing.mu.Unlock()
	if strayed {
		// It may be the time that went on while this machine was asleep: read all clocks anew.
		for _, m := range all {
			m.probeSoon()
		}
	}
}

// setClock reports whether the node's clock has become a wrong one.
func (n *node) setClock(off time.Duration, wrong bool) bool {
	s := &n.standing
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock = off
	if s.astray == wrong && !wrong {
		return false
	}
	turned := wrong && !s.astray
	s.astray = wrong
	s.reconsider(n.opts)
	return turned
}

// reconsider settles whether the node abstains. Called with mu held.
func (s *standing) reconsider(o *options) {
	a := s.life.abstains(o.guard, o.clock.local())
	if s.astray {
		a = &abstention{clock: s.clock}
	}
	s.abstains.Store(a)
}

// ballot turns a grant into an abstention where the node abstains.
func (n *node) ballot(a *abstention, c *call, said *answer) {
	if a.over(c.asked) {
		n.standing.abstains.CompareAndSwap(a, nil)
		return
	}
	a.apply(c.kind.trust, said, n.opts.clock.local)
}

// abstaining returns why the node's grant of what c asks would not count, or nil.
func (n *node) abstaining(c *call) error {
	if a := n.standing.abstains.Load(); a != nil && !a.over(c.asked) && c.kind.trust != trustAll {
		return a.tell(n.opts.clock.local())
	}
	return nil
}

// hearsay turns a grant that the node has told of unasked into an abstention, where the
// node abstains, or where it is not certain that it is the one that we know: the
// listener has a connection of its own, which may be back before the other.
func (n *node) hearsay(said *answer) {
	n.mu.Lock()
	connected := n.link != nil
	n.mu.Unlock()
	s := &n.standing
	s.mu.Lock()
	same := s.heard == s.life.epoch && s.heard != unknownEpoch
	s.mu.Unlock()
	now := n.opts.clock.local()
	if a := s.abstains.Load(); a != nil && !a.over(now) {
		a.apply(trustOld, said, n.opts.clock.local)
	} else if n.opts.guard > 0 && !(connected && same) {
		said.vote, said.err = voteAbstained, errNotMet
	}
}

var errNotMet = &AbstainError{Reason: "is being connected"}

// recognise learns which life of the node the listener's connection leads to.
func (n *node) recognise(conn redis.Conn) error {
	info := make(map[string]string)
	reply, err := conn.Do("INFO", "replication")
	if err == nil {
		err = fields(reply, info)
	}
	if err != nil && !isServerError(err) {
		return err
	}
	f := facts{replID: info["master_replid"]}
	n.standing.mu.Lock()
	n.standing.heard = f.epoch()
	n.standing.mu.Unlock()
	return nil
}

// query is a command whose reply tells facts. The last two are not always asked.
type query struct {
	kind *kind
	key  any
}

func (n *node) queries() []query {
	list := make([]query, 0, 9)
	for _, s := range infoSections {
		list = append(list, query{askInfo, s})
	}
	for _, p := range configPatterns {
		list = append(list, query{askConfig, p})
	}
	list = append(list, query{readTime, ""}, query{askRecord, n.recordKey()})
	if n.opts.blind {
		list = append(list, query{askScript, n.recordScript().sha})
	}
	return list
}

func (n *node) recordKey() any { return n.opts.prefix + nodeName }

// recordScript differs from prefix to prefix, so that whoever makes the node know it
// has seen to the record of that prefix in the same step.
func (n *node) recordScript() script {
	source := fmt.Sprintf("%s-- %q\n", nodeSource, n.opts.prefix)
	sum := sha1.Sum([]byte(source)) //nolint:gosec // see above
	return script{source: source, sha: hex.EncodeToString(sum[:])}
}

var nodeSource = func() string {
	source, err := sources.ReadFile("lua/node.lua")
	if err != nil {
		panic(err) // embedded at build time
	}
	return string(source)
}()

// The kinds of questions that tell facts.
var (
	askInfo   = &kind{index: 10, command: "INFO", native: oneArg, read: asItCame, trust: trustAll}
	askConfig = &kind{index: 11, command: "CONFIG", native: getArg, read: asItCame, trust: trustAll}
	askRecord = &kind{index: 12, command: "GET", native: oneArg, read: asItCame, trust: trustAll}
	askScript = &kind{index: 13, command: "SCRIPT", native: existsArg, read: asItCame, trust: trustAll}
	setRecord = &kind{index: 14, command: "EVAL", native: recordArgs, read: asItCame, trust: trustAll}
)

func oneArg(q *question, args []any) []any    { return append(args, q.key) }
func getArg(q *question, args []any) []any    { return append(args, "GET", q.key) }
func existsArg(q *question, args []any) []any { return append(args, "EXISTS", q.key) }

func recordArgs(q *question, args []any) []any {
	return append(args, q.args[2], 1, q.key, q.args[0], q.args[1])
}

func asItCame(reply any) answer { return answer{vote: voteGranted, reply: reply} }

// asker puts a question to the node: over a fresh connection, or over the one in use.
type asker func(k *kind, q *question) (any, error)

// overLink asks over a connection that nobody else uses yet.
func overLink(conn redis.Conn) asker {
	return func(k *kind, q *question) (any, error) { return conn.Do(k.command, k.native(q, nil)...) }
}

// overQueue asks like everybody else.
func (n *node) overQueue(ctx context.Context) asker {
	return func(k *kind, q *question) (any, error) {
		a, _ := n.inquire(ctx, k, q.key, q.args[:]...)
		if a.vote != voteGranted && a.err == nil {
			a.err = ErrNodeTimeout
		}
		return a.reply, a.err
	}
}

// gather asks all that is to be known. An error says that the node could not be asked at all.
func (n *node) gather(replies func(q query) (any, error)) (*facts, time.Time, error) {
	info, config := make(map[string]string), make(map[string]string)
	var refused, blind string
	var unkept error
	var micros int64
	var text string
	remembers := false
	for _, q := range n.queries() {
		reply, err := replies(q)
		var said *ReplyError
		if err = explained(err, strings.ToLower(q.kind.command)); err != nil && !errors.As(err, &said) {
			return nil, time.Time{}, err
		}
		if said != nil && slices.Contains([]string{"NOAUTH", "LOADING", "BUSY", "MAXCLIENTS", "MASTERDOWN", "DENIED"}, said.Code) && q.kind != askRecord {
			return nil, time.Time{}, err
		}
		switch q.kind {
		case askInfo:
			if err == nil {
				err = fields(reply, info)
			}
			if err != nil {
				refused = err.Error()
			}
		case askConfig:
			if err == nil {
				err = fields(reply, config)
			}
			if err != nil {
				blind = err.Error()
			}
		case readTime:
			if a := readMicros(reply); err == nil {
				micros, err = a.token, a.err
			}
			if err != nil {
				return nil, time.Time{}, fmt.Errorf("TIME: %w", err)
			}
		case askRecord:
			if err == nil && reply != nil {
				text, err = redis.String(reply, nil)
			}
			unkept = err
		case askScript:
			known, _ := redis.Ints(reply, err)
			remembers = len(known) == 1 && known[0] == 1
		}
	}
	f := readFacts(info, config)
	if refused != "" {
		f = &facts{refused: refused}
	}
	f.blind, f.unkept, f.micros, f.record, f.remembers = blind, unkept, micros, parseRecord(text), remembers
	f.text = text
	return f, n.opts.clock.local(), nil
}

// meet learns what there is to know of a node that is being connected, and
// refuses it where it cannot vote.
func (n *node) meet(conn redis.Conn) error {
	// The quickest of three answers: right after a connection was opened, one is often late.
	var asked, now instant
	var a answer
	for try := range 3 {
		began := n.opts.clock.now()
		reply, err := conn.Do("TIME")
		if err != nil {
			return explained(err, "time")
		}
		told := readMicros(reply)
		if told.err != nil {
			return fmt.Errorf("TIME: %w", told.err)
		}
		if ended := n.opts.clock.now(); try == 0 || ended.since(began) < now.since(asked) {
			asked, now, a = began, ended, told
		}
	}
	for _, q := range n.queries() {
		if err := conn.Send(q.kind.command, q.kind.native(&question{key: q.key}, nil)...); err != nil {
			return err
		}
	}
	if err := conn.Flush(); err != nil {
		return err
	}
	f, at, err := n.gather(func(query) (any, error) { return conn.Receive() })
	if err != nil {
		return err
	}
	if err := n.learnt(f, at, true, overLink(conn)); err != nil {
		return err
	}
	n.measured(a.token, asked, now)
	return nil
}

// relearn asks a node in use again. An error means that the connection is to be given up,
// since what was learnt over it is void.
func (n *node) relearn(ctx context.Context) error {
	ask := n.overQueue(ctx)
	f, at, err := n.gather(func(q query) (any, error) { return ask(q.kind, &question{key: q.key}) })
	if err != nil {
		return nil //nolint:nilerr // the node cannot be asked: the watchdog sees to that
	}
	if err := n.learnt(f, at, false, ask); err != nil {
		return err
	}
	n.report()
	return nil
}

var errOtherLife = errors.New("it has got another role or identity")

// learnt draws the conclusions: whether the node may vote, and from when on. fresh says
// that the connection is new: over an old one, nobody else may answer than before.
func (n *node) learnt(f *facts, now time.Time, fresh bool, ask asker) error {
	s := &n.standing
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	s.mu.Lock()
	was := s.life
	stale := now.Before(was.at) // somebody has learnt more over a later connection
	if !stale {
		s.facts, s.at = f, now
	}
	s.mu.Unlock()
	if stale {
		return nil
	}
	if err := f.unfit(n.opts); err != nil {
		return err
	}
	if !fresh && was.epoch != f.epoch() {
		return errOtherLife
	}
	if err := n.peers.claim(n, f); err != nil {
		return err
	}
	is := was.recall(f, now)
	unkept := f.unkept
	if n.opts.guard == 0 || unkept != nil {
		is.record = f.record
	} else if is, unkept = n.keepRecord(f, was, is, ask); unkept != nil {
		is.record = f.record
	}
	s.mu.Lock()
	f.unkept = unkept
	s.life = is
	s.reconsider(n.opts)
	s.mu.Unlock()
	var said *ReplyError
	if errors.As(unkept, &said) && said.Code == "READONLY" {
		return unkept
	}
	return nil
}

// keepRecord brings the node's record up to date and returns the life that goes with it.
func (n *node) keepRecord(f *facts, was, is life, ask asker) (life, error) {
	for range 3 { // somebody else may be faster, and know better
		want := is.record.String()
		if want == f.text {
			break
		}
		q := &question{key: n.recordKey()}
		q.args[0], q.args[1], q.args[2] = f.text, want, n.recordScript().source
		stands, err := redis.String(ask(setRecord, q))
		if err != nil {
			return is, explained(err, "eval")
		}
		if stands == want {
			break
		}
		f.text, f.record, f.remembers = stands, parseRecord(stands), true
		is = was.recall(f, is.at)
	}
	return is, nil
}
