package guard

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/lua"
	"github.com/quorumlock/redlock/internal/redisconn"
	"github.com/quorumlock/redlock/internal/token"
)

// The check asks the node: at each connection, and now and then.

// Our own keys, behind the prefix.
const (
	recordName = "redlock:node"
	floorName  = "redlock:floor"
)

// FloorKey is where a node keeps the largest token that it has dropped.
func (r *Rules) FloorKey() string { return r.Prefix + floorName }

// RecordKey is where a node keeps its record.
func (r *Rules) RecordKey() string { return r.Prefix + recordName }

// recordScript differs from prefix to prefix, so that whoever makes the node know it has seen to the record of that
// prefix in the same step.
func (r *Rules) recordScript() *lua.Script {
	return lua.New(fmt.Sprintf("%s-- %q\n", nodeScript.Source, r.Prefix))
}

var nodeScript = lua.Load("node")

// infoSections are those that are asked for, one at a time: several in one command is for Redis 7 alone.
var infoSections = []string{"server", "replication", "persistence", "memory"}

// configPatterns cover what INFO does not tell.
var configPatterns = []string{"*appendfsync*", "save"}

// commands are what a node is asked. The time comes before the record, which must not seem to be from the future.
func (r *Rules) commands() [][]any {
	var all [][]any
	for _, section := range infoSections {
		all = append(all, []any{"INFO", section})
	}
	for _, pattern := range configPatterns {
		all = append(all, []any{"CONFIG", "GET", pattern})
	}
	all = append(all, []any{"TIME"}, []any{"GET", r.RecordKey()}, []any{"GET", r.FloorKey()})
	if r.WithoutInfo {
		all = append(all, []any{"SCRIPT", "EXISTS", r.recordScript().SHA})
	}
	return all
}

// ask asks all that is to be known. An error says that the node cannot be asked at present.
func (r *Rules) ask(do redisconn.Do) (*Info, error) {
	replies, err := do(r.commands()...)
	if err != nil {
		return nil, err
	}
	next := func() (any, error) {
		reply := replies[0]
		replies = replies[1:]
		if err, refused := reply.(redis.Error); refused {
			return nil, err
		}
		return reply, nil
	}
	// all reads the next n replies into one map, and why it lacks something.
	all := func(n int, command string) (said map[string]string, lacks string, _ error) {
		said = make(map[string]string)
		for range n {
			reply, err := next()
			if isUnavailable(err) {
				return nil, "", r.Explain(err, command)
			}
			if err == nil {
				err = fields(reply, said)
			}
			if err != nil {
				lacks = r.Explain(err, command).Error()
			}
		}
		return said, lacks, nil
	}
	sections, refused, err := all(len(infoSections), "info")
	if err != nil {
		return nil, err
	}
	config, blind, err := all(len(configPatterns), "config")
	if err != nil {
		return nil, err
	}
	i := parseInfo(sections, config)
	if refused != "" {
		i = &Info{Refused: refused}
	}
	i.Blind, i.trusted = blind, r.Durable
	reply, err := next()
	if err == nil {
		i.micros, err = Micros(reply)
	}
	if err != nil {
		return nil, fmt.Errorf("TIME: %w", r.Explain(err, "time"))
	}
	reply, err = next()
	if err == nil && reply != nil {
		i.text, err = redis.String(reply, nil)
	}
	i.Unkept, i.record = err, parseRecord(i.text)
	floor, _ := redis.String(next()) // may be refused: then nothing is known
	i.Floor, _ = token.Parse(floor)
	if r.WithoutInfo {
		known, _ := redis.Ints(next())
		i.remembers = len(known) == 1 && known[0] == 1
	}
	return i, nil
}

// isUnavailable reports whether the error says that the node tells nobody anything at present.
func isUnavailable(err error) bool {
	passing := []string{"NOAUTH", "LOADING", "BUSY", "MAXCLIENTS", "MASTERDOWN", "DENIED"}
	return slices.Contains(passing, redisconn.Code(err))
}

// Micros reads the reply to TIME, in µs since 1970.
func Micros(reply any) (int64, error) {
	parts, err := redis.Int64s(reply, nil)
	if err != nil || len(parts) != 2 {
		return 0, fmt.Errorf("unexpected reply %v", reply)
	}
	return parts[0]*1e6 + parts[1], nil
}

// UnreachableError is the error of a node that could not be asked at all.
type UnreachableError struct{ error }

// Unwrap returns why.
func (e UnreachableError) Unwrap() error { return e.error }

// ErrChanged says that another node answers than before, so that what was learnt is void.
var ErrChanged = errors.New("it has got another role or identity")

// Learn asks the node and draws the conclusions: whether it may vote, and from when on. fresh says that the connection
// is new: over an old one, nobody else may answer than before. The error says that the connection is to be given up,
// but for an [UnreachableError].
func (g *Guard) Learn(do redisconn.Do, fresh bool) (*Info, error) {
	info, err := g.rules.ask(do)
	if err != nil {
		return nil, UnreachableError{err}
	}
	return info, g.learnt(info, g.now(), fresh, do)
}

// learnt takes note of what a node said before now.
func (g *Guard) learnt(info *Info, now time.Time, fresh bool, do redisconn.Do) error {
	own := *info // keepRecord changes it, while others read the other
	said := &own
	g.turn <- struct{}{}
	defer func() { <-g.turn }()
	g.mu.Lock()
	old := g.known
	old.leap = g.leap
	stale := now.Before(old.at) // somebody has learnt more over a later connection
	if !stale {
		g.info, g.at = info, now
	}
	g.mu.Unlock()
	if stale {
		return nil
	}
	if err := said.unfit(&g.rules); err != nil {
		return g.rules.Explain(err, "")
	}
	if !fresh && old.epoch != said.epoch() {
		return ErrChanged
	}
	if err := g.claim(said.runID, said.replID); err != nil {
		return err
	}
	next := old.reconcile(said, now)
	unkept, command := said.Unkept, "get"
	if g.rules.Period == 0 || unkept != nil {
		next.record = said.record
	} else if next, unkept = g.keepRecord(said, old, next, do); unkept != nil {
		next.record, command = said.record, "eval"
	}
	readOnly := redisconn.Code(unkept) == "READONLY"
	unkept = g.rules.Explain(unkept, command)
	g.mu.Lock()
	info.Unkept = unkept
	g.known = next
	if g.leap == old.leap {
		g.leap = leap{} // it is in known
	}
	g.reconsider()
	g.mu.Unlock()
	if readOnly {
		return unkept
	}
	return nil
}

// keepRecord brings the node's record up to date and returns the incarnation that goes with it.
func (g *Guard) keepRecord(said *Info, old, next incarnation, do redisconn.Do) (incarnation, error) {
	for range 3 { // somebody else may be faster, and know better
		want := next.record.String()
		if want == said.text {
			break
		}
		replies, err := do([]any{"EVAL", g.rules.recordScript().Source, 1, g.rules.RecordKey(), said.text, want})
		if err != nil {
			return next, err
		}
		if refusal, refused := replies[0].(redis.Error); refused {
			return next, refusal
		}
		stands, err := redis.String(replies[0], nil)
		if err != nil {
			return next, err
		}
		if stands == want {
			break
		}
		said.text, said.record, said.remembers = stands, parseRecord(stands), true
		next = old.reconcile(said, next.at)
	}
	return next, nil
}
