// Package sim is a deterministic model of independent Redis masters and of the network between them and their clients.
// It runs inside a testing/synctest bubble: time is virtual, nothing touches a real socket, and the library under test
// runs unchanged down to its queues, because only the net.Conn below it is replaced.
//
//	nw := sim.NewNetwork(seed)
//	node := sim.NewNode("n0:6379", seed)
//	nw.Attach(node)
//	conn, err := nw.Dialer("alice")(ctx, "tcp", "n0:6379")
//
// # What makes one seed one trace
//
// Goroutines of a bubble run in parallel, so the order in which they draw from a shared generator would differ from run
// to run. Hence every delay is a pure function of the seed, the connection, the direction and the instant: two writes
// at one instant get the same delay, however many flushes the scheduler made of them. Every delay has a random tail of
// nanoseconds, so events of different connections all but never meet at one instant, and virtual time alone orders
// them.
//
// # Words
//
// A link is one client and one node. Up is from the client to the node, Down is back. The package must not import the
// root package: the root package's tests import this one.
package sim
