package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// Many small processes are what a crowd is in production: each has its own scheduler, and no idea of the others.

const crowdEnv = "REDLOCK_BENCH_CROWD" // an opening, as JSON

const manyProcesses = 10

// processReport is what a process says of its clients.
type processReport struct {
	Arrival *arrival
	Ended   int64  // when its last client had had a lock, in ns of Unix time: the processes have one clock
	Error   string // ""
}

// processes lets as many clients as the crowd has come from several processes, all at one moment. The crowd goes first.
func (g *gathering) processes() error {
	closeAll(g.lockers)
	g.lockers = nil
	if err := errors.Join(g.awaitGuard(), g.connected(g.others())); err != nil {
		return err
	}
	n := min(manyProcesses, g.clients)
	children := make([]*child, n)
	defer func() {
		for _, child := range children {
			if child != nil {
				child.kill()
			}
		}
	}()
	for i := range children {
		spec, err := json.Marshal(g.opening((g.clients+i)/n, g.cluster.nodes)) // n of these shares are all clients
		if err != nil {
			return err
		}
		if children[i], err = startChild(crowdEnv, string(spec)); err != nil {
			return err
		}
	}
	if err := together(n, func(i int) error { return children[i].says("ready") }); err != nil {
		return err
	}
	before, err := g.received()
	if err != nil {
		return err
	}
	start := time.Now().Add(200 * time.Millisecond) // enough for all to learn of it
	a := &arrival{Clients: g.clients}
	reports := make([]processReport, n)
	err = together(n, func(i int) error {
		if _, err := fmt.Fprintln(children[i].in, start.UnixNano()); err != nil {
			return err
		}
		line, err := children[i].line()
		if err != nil {
			return err
		}
		return json.Unmarshal([]byte(line), &reports[i])
	})
	if err != nil {
		return err
	}
	for _, r := range reports {
		a.Served += r.Arrival.Served
		a.Failed += r.Arrival.Failed
		a.Took = max(a.Took, time.Unix(0, r.Ended).Sub(start))
		if r.Error != "" {
			err = errors.New(r.Error)
		}
	}
	err = g.arrived(tenProcesses, a, before, err)
	return errors.Join(err, together(n, func(i int) error { return children[i].end() }))
}

// crowdMain is such a process's main function: it says that it is ready, reads when to start, opens its clients,
// reports, and keeps them until its input ends.
func crowdMain(spec string) error {
	raiseFileLimit()
	var o opening
	if err := json.Unmarshal([]byte(spec), &o); err != nil {
		return err
	}
	fmt.Println("ready")
	in := bufio.NewReader(os.Stdin)
	line, err := in.ReadString('\n')
	if err != nil {
		return err
	}
	start, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	if err != nil {
		return err
	}
	time.Sleep(time.Until(time.Unix(0, start)))
	lockers, a, err := o.open()
	r := processReport{Arrival: a, Ended: time.Now().UnixNano()}
	if err != nil {
		r.Error = err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	closeAll(lockers)
	return err
}
