package redisconn

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"
)

// A host's name is looked up apart from the attempts to connect, with a time of its own: a resolver takes seconds where
// the first of its servers is silent. What it finds too late for one attempt is there for the next.

const (
	// lookupTimeout is for a resolver that never returns: the usual one takes 5 s for each question, server and domain.
	lookupTimeout = time.Minute
	// lookupFresh is for how long an answer serves the attempts that come after it, so that a thousand connections which
	// are made at one moment do not ask as often, and one that is made anew follows a name to another address.
	lookupFresh = 250 * time.Millisecond

	maxPause = 250 * time.Millisecond // before a name's next address is tried, as RFC 8305 has it
	maxAddrs = 16                     // how many addresses of a name are tried
)

// names looks up the host of one address, for all connections to it.
type names struct {
	mu     sync.Mutex // guards the fields below
	latest *lookup    // under way, or over; nil: there was none
	kept   []string   // the addresses of the last one that found any
}

// lookup is one call of a resolver.
type lookup struct {
	over   chan struct{} // closed when the fields below are set
	cancel context.CancelFunc
	ended  time.Time
	addrs  []string // with the port
	err    error
}

// ask returns the lookup that is under way, or was until just now, or begins another.
func (n *names) ask(address string, now func() time.Time, find finder) *lookup {
	n.mu.Lock()
	defer n.mu.Unlock()
	if q := n.latest; q != nil && (!isClosed(q.over) || now().Sub(q.ended) < lookupFresh) {
		return q
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	q := &lookup{over: make(chan struct{}), cancel: cancel}
	n.latest = q
	go func() {
		defer close(q.over)
		defer cancel()
		q.addrs, q.err = find.find(ctx, address)
		q.ended = now()
		if q.err == nil {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.kept = q.addrs
		}
	}()
	return q
}

// finder returns the addresses of a host: a net.Resolver's LookupHost.
type finder func(ctx context.Context, host string) ([]string, error)

// find returns the addresses that the name in an address stands for.
func (f finder) find(ctx context.Context, address string) ([]string, error) {
	host, port, err := net.SplitHostPort(address)
	var found []string
	if err == nil {
		found, err = f(ctx, host)
	}
	var dns *net.DNSError
	switch isDNS := errors.As(err, &dns); {
	case isDNS && dns.IsTimeout:
		return nil, unresolved(host, dns.Server)
	case err != nil:
		return nil, lookupFailed(err)
	case len(found) == 0:
		return nil, lookupFailed(&net.DNSError{Err: "no such host", Name: host, IsNotFound: true})
	}
	found = slices.Clone(found[:min(len(found), maxAddrs)])
	for i, addr := range found {
		found[i] = net.JoinHostPort(addr, port)
	}
	return found, nil
}

// last returns what the last lookup has found that has found anything.
func (n *names) last() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.kept
}

func (n *names) end() {
	n.mu.Lock()
	q := n.latest
	n.mu.Unlock()
	if q != nil {
		q.cancel()
		<-q.over
	}
}

// unresolved returns the error of a lookup that takes long, or whose resolver has given up.
func unresolved(host, server string) error {
	return lookupFailed(&net.DNSError{Err: "the name is not resolved yet", Name: host, Server: server, IsTimeout: true})
}

// lookupFailed returns the error of a lookup, as package net has it.
func lookupFailed(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }

// race connects to the first of several addresses that accepts, and tries the next one as soon as one refuses, or after
// a pause: the first may lead nowhere, as that of a host which has moved, or IPv6 in a network without it.
func race(
	ctx context.Context, addrs []string, pause time.Duration, dial func(context.Context, string) (net.Conn, error),
) (net.Conn, error) {
	if len(addrs) == 1 {
		return dial(ctx, addrs[0])
	}
	type result struct {
		conn net.Conn
		err  error
	}
	ctx, cancel := context.WithCancel(ctx)
	results := make(chan result)
	running := 0
	defer func() {
		cancel()
		for ; running > 0; running-- {
			if late := <-results; late.err == nil {
				_ = late.conn.Close()
			}
		}
	}()
	turn := time.NewTimer(0)
	defer turn.Stop()
	var first error
	for len(addrs) > 0 || running > 0 {
		due := turn.C
		if len(addrs) == 0 {
			due = nil
		}
		select {
		case <-due:
			addr := addrs[0]
			addrs = addrs[1:]
			running++
			go func() {
				conn, err := dial(ctx, addr)
				results <- result{conn, err}
			}()
			turn.Reset(pause)
		case r := <-results:
			if running--; r.err == nil {
				return r.conn, nil
			}
			first = cmp.Or(first, r.err)
			turn.Reset(0)
		}
	}
	return nil, first
}
