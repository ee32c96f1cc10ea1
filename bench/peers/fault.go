package main

import (
	"context"
	"slices"
	"time"
)

// A fault is something that goes wrong, and the libraries that meet it, one after the other.
type fault struct {
	name  string
	about string // what is done, in plain words
	want  string // what a caller may expect
	peers []subject
	ours  subject
	tests []string // of this library: they rule it out
}

// A subject is a library in one configuration.
type subject struct {
	library string
	module  string // the library's
	client  string // the module of the Redis client that the library was given; empty: it has none or its own
	config  string // time-outs above all
	masters int
	run     func(ctx context.Context, m *masters) (outcome, error)
}

// An outcome is what a run has seen.
type outcome struct {
	seen     string
	expected bool // it is what the fault's want says
}

// longest is how long one run may take. Then its masters are killed.
const longest = 25 * time.Second

// faults are all, in the order of the table in docs/comparison.md.
var faults = []fault{
	frozenTryLock, frozenExtend, keysAfterTimeout, errorAfterTimeout, overtakenSet, extendAfterExpiry,
	partitionedHolder, foreignKey,
	ownerPrefix, shortTTL,
}

// subjects are the peers, and this library last.
func (f fault) subjects() []subject { return append(slices.Clip(f.peers), f.ours) }
