package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/token"
)

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
	var floor int64
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
			if q.key == n.floorKey() {
				kept, _ := redis.String(reply, err) // may be refused: then nothing is known
				floor, _ = token.Parse(kept)
				continue
			}
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
	f.text, f.floor, f.trusted = text, floor, n.opts.durable
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
	was.leap = s.leap
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
	if s.leap == was.leap {
		s.leap = leap{} // it is in the life
	}
	n.tokens.Dropped(f.floor)
	n.reconsider()
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
		q.args[0], q.args[1], q.args[2] = f.text, want, n.recordScript().Source
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
