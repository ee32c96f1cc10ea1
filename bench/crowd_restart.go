package main

import (
	"context"
	"strconv"
	"time"
)

// restart kills all masters under the crowd, starts them again at once, and waits until each client has had a lock
// again. Nobody can have one before the restart guard is over; the clock starts then.
func (g *gathering) restart(c *crowd) error {
	servers, ctx := g.cluster.servers, context.Background()
	if err := together(len(servers), func(i int) error { return servers[i].Kill(ctx) }); err != nil {
		return err
	}
	if err := together(len(servers), func(i int) error { return servers[i].revive() }); err != nil {
		return err
	}
	// A master's count begins with its start. The first two are ours: the one that saw it answer, and the control.
	ours, name := 2*len(servers), g.nextName("back")
	var err error
	c.Restart, err = arrive(len(g.lockers), time.Now().Add(g.guard), g.deadline,
		func(i int, try try) error {
			return try(g.lockers[i], name+strconv.Itoa(i))
		})
	// The outsider comes back, too.
	return g.made(c.Restart, ours+g.others()*len(servers), err)
}
