// Package modelcheck explores the token's protocol (docs/algorithm.md, The token) exhaustively on three nodes with two
// or three attempts: every order in which commands can reach the nodes, every subset of answers that a client may have
// when it decides. It is a test of the protocol, not of the code in the root package.
//
// # Model
//
// An attempt draws a proposal F and asks every node. A node gives the lock if its key is free and accepts F if F is
// above its entry. Lock and acceptance from a majority: F is the token. The lock from a majority but too little
// acceptance: one more round raises to max + 1, owner-checked on the node, and counts the nodes that accepted exactly
// that. All of it stands in fence.go and fence_steps.go, with the naive variants, and with counters in place of
// proposals, for the counter-examples in their shortest form.
//
// An attempt that lost to a split vote may ask every node once more, under its owner and with a larger token
// (config.asksAgain): the node gives what is free or the attempt's own, and only answers to this question count. With a
// clock, the new token is the time of the second question: one drawn from the first breaks the order where a node
// forgot in between (the checker shows so).
//
// Without a clock an attempt may propose anything. With a clock (config.horizon) a proposal is the time plus what the
// clocks disagree by, nodes may restart without their data, and old entries may be trimmed.
//
// What needs no step of its own, because leaving something undone covers it: a lost or late request is one that is not
// executed (yet); a lost or late answer is one that the attempt does not count (yet); a crash that keeps the data is a
// set of lost messages; a client that pauses or gives up takes no step; a release is a key that goes away, as by
// expiry, and a key may go away at any moment. (config.wireStep says why it is enough to let it go when the next owner
// comes.)
//
// # Properties
//
// Checked whenever an attempt B wins while A has won before:
//
//  1. Unique: their tokens differ.
//  2. Real-time order: if A had won before B began, B's token is the larger.
//  3. Order of grants: if a majority of the nodes that voted for B still show B's key when B wins, B's token is the
//     larger – even where A and B ran side by side.
//
// 1 and 2 hold whatever clocks, expiry and pauses do. Since A won before B began, the node that both majorities share
// gave the lock to A first, and it accepts only upwards.
//
// 3 is what a holder that looks at its own validity gets: while its keys stand on a majority, nobody can have taken
// them, so whoever won before had the shared node before. Without its condition it is false, and the checker shows so
// (config.beyondValidity): A's answers are delayed, its keys expire, B wins with a larger token, A reads its answers
// and believes to hold. A's token is the smaller one, so the resource refuses A: the fence does what it is for. But A
// must not be called the later holder. A client whose validity is over at that moment does not count as holder, so of
// our clients only one whose nodes' clocks ran fast gets there.
//
// With a clock, for disagreement D between any two proposals made at the same time, lifetime L of an attempt (from
// drawing its proposal to its last counted answer), guard G and retention R, all of it tight to one tick:
//
//   - a node may forget if G > D, and whether its vote abstains is settled before the proposal is drawn;
//   - entries may be trimmed if R ≥ D + L. Without a bound on L no retention is enough;
//   - a loss that nobody notices (FLUSHALL on a live connection) breaks the order of attempts less than D apart.
//
// guard.go is a smaller model with TTLs: holds do not overlap exactly if outage + guard ≥ TTL. permits.go is one of
// semaphores: k slots let k in, a counter of k on each node lets in more.
//
// migration.go is a change of the list of nodes, on up to six of them: clients with the old list, with both lists and
// with the new list come, go and crash, in any order in which old alone and new alone are never out at once. Exclusion
// holds throughout. Order holds between any two holds that share a list. Between the old list alone and the new one
// alone only the clock orders tokens: D + 1 ticks between the last client of one and the first of the other are enough,
// and D are not. Old beside new breaks exclusion (testdata/two_lists.txt), unless every majority of one list meets
// every majority of the other; the tests check that rule against brute force, and the protocol against the rule.
//
// # Not modelled
//
// Five nodes, but for a change of the list; more than three attempts, except as the entries that nodes have to begin
// with; more than one raise for an attempt; the highest-seen floor (proposals are arbitrary, which includes it); a
// majority that forgets within one guard period (nothing is promised then); a third question under one owner; clocks
// that run at different rates; nodes that forget, and tickets, while the list changes.
//
// The tests explore the small bounds; go test ./internal/modelcheck -run Deep -deep -v -timeout 30m the wide ones.
// Both print states and seconds.
package modelcheck
