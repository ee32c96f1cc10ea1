package protocol

import (
	"fmt"
	"strconv"
	"time"

	"github.com/quorumlock/redlock/internal/agreement"
	"github.com/quorumlock/redlock/internal/quorum"
	"github.com/quorumlock/redlock/internal/runs"
	"github.com/quorumlock/redlock/internal/token"
)

// State is a node's answer about a name.
type State struct {
	Owner   string
	Label   string
	Readers []string
	Labels  []string // of the readers
	Left    time.Duration
	Token   int64  // the largest that the node remembers
	Held    int64  // the owner's, if the node knows it; without an owner, the same as Token
	Value   string // the owner's value, as value.lua has it: see ValueIn
	Waiting int
	Entry   runs.Entry
}

// ValueText returns the text in which the nodes keep a value: it says whose it is, and which of the owner's values.
func ValueText(owner fmt.Stringer, token int64, number int, value string) string {
	return fmt.Sprintf("%s %016d %016d %s", owner, token, number, value)
}

// ValueIn returns the value in such a text.
func ValueIn(text string) string { return text[min(len(text), valueAt):] }

const (
	heldTokenAt = ownerLen + 1
	valueAt     = heldTokenAt + 2*(tokenLen+1)
)

// entry is the reply about one name. A part of another kind must not pass for nothing: a register for no run, say.
type entry struct {
	parts []any
	odd   bool
}

func (e *entry) text(i int) string {
	b, is := e.parts[i].([]byte)
	e.odd = e.odd || !is
	return string(b)
}

func (e *entry) number(i int) int64 {
	n, is := e.parts[i].(int64)
	e.odd = e.odd || !is
	return n
}

func (e *entry) left(i int) time.Duration {
	ms := e.number(i)
	if ms == -2 { // PTTL: the key does not exist
		return 0
	}
	return Left(ms)
}

func readInspect(reply any) quorum.Answer {
	parts, _ := reply.([]any)
	if len(parts) != 10 {
		return badReply
	}
	e := &entry{parts: parts}
	s := State{Owner: e.text(0), Left: e.left(1), Waiting: int(e.number(3)), Label: agreement.ReadLabel(parts[7])}
	if s.Owner == "" && s.Left != 0 {
		return quorum.Answer{Vote: quorum.Failed, Err: ErrNoLock}
	}
	known, register, left, value := e.text(2), e.text(4), e.left(5), e.text(9)
	if !s.readTokens(known, value) || !s.readReaders(parts[6], parts[8]) || e.odd {
		return badReply
	}
	var ok bool
	if s.Entry, ok = runs.Parse(register, left); !ok {
		err := fmt.Errorf("the register of runs says %.60q, which this library does not write", register)
		return quorum.Answer{Vote: quorum.Failed, Err: err}
	}
	return quorum.Answer{Vote: quorum.Granted, Reply: s}
}

// readTokens reads the token that the node knows of the name, and the owner's from that or from its value.
func (s *State) readTokens(highest, value string) bool {
	if highest != "" {
		known, err := strconv.ParseFloat(highest, 64)
		if err != nil {
			return false
		}
		s.Token = int64(known)
		// Half a step above is not the owner's: see propose.lua. Nor is what is older than the owner: others enter no token.
		since, fenced := agreement.Since(s.Owner)
		if s.Owner == "" || fenced && known == float64(s.Token) && s.Token >= since {
			s.Held = s.Token
		}
	}
	if len(value) >= valueAt && value[:ownerLen] == s.Owner {
		s.Value = value
		s.Held, _ = token.Parse(value[heldTokenAt:][:tokenLen])
	}
	return true
}

// readReaders reads the owners of readers, and what their clients call themselves.
func (s *State) readReaders(owners, labels any) bool {
	reading, isList := owners.([]any)
	called, _ := labels.([]any)
	if !isList || len(called) != len(reading) {
		return false
	}
	for i, r := range reading {
		text, _ := r.([]byte)
		if _, ok := agreement.ParseOwner(string(text)); ok {
			s.Readers, s.Labels = append(s.Readers, string(text)), append(s.Labels, agreement.ReadLabel(called[i]))
		}
	}
	return true
}
