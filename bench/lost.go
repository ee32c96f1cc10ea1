package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/redlock/internal/redisserver"
)

// Lost updates: processes count up a number together. Each reads it under a lock, thinks, and writes it back. A process
// that has read is frozen for longer than its TTL, again and again, so that it writes when it has lost the lock. Every
// update that was confirmed and is not in the number at the end is lost. All contestants work side by side.
var lostUpdates = scenario{
	name: "lost-updates",
	about: "Beside consensus: processes read, modify and write one number under a lock with a TTL of 2 s; one that has " +
		"read is stopped for three TTLs, again and again.",
	contestants: editors,
	goroutines:  []int{3}, // processes
	measure:     (*bench).lose,
	longer:      600,
	rounds:      1,
}

// editors are the locks. Where the store checks tokens, the name says so.
var editors = []contestant{
	edits("SET NX, one master", bareSetNX1),
	edits("redlock, token not checked", redlockFenced5), edits("redlock, token checked", redlockFenced5),
	edits("etcd", etcd3), edits("etcd, revision checked", etcd3),
	edits("ZooKeeper", zooKeeper3), edits("ZooKeeper, zxid checked", zooKeeper3),
}

func edits(name string, c contestant) contestant {
	c.name = name
	return c
}

const (
	updates   = "updates" // that were confirmed
	pauses    = "pauses"
	rejected  = "rejected"  // late writes and reads that the store refused
	overwrote = "overwrote" // late writes that it took: of something that the writer had not read
	lost      = "lost"      // updates that the number lacks at the end
)

// tally is what has become of the updates of a process, or of all. Those that failed may be in the number.
type tally map[string]float64

func newTally() tally { return tally{updates: 0, rejected: 0, overwrote: 0, failed: 0} }

// judge compares with the number in the end. An update whose outcome nobody knows is not lost; where it is in the
// number, it may hide one that is.
func (t tally) judge(number int) { t[lost] = max(0, t[updates]-float64(number)) }

// lose lets all contestants of the scenario work side by side, when it is the first one's turn.
func (b *bench) lose(sc scenario, c contestant, processes int, duration time.Duration) ([]sample, error) {
	if c.name != sc.contestants[0].name {
		return nil, nil
	}
	for _, e := range b.cluster.ensembles {
		if err := e.heal(); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	store, err := redisserver.Launch(ctx, redisserver.Config{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = store.Remove(context.Background()) }()
	samples, prefix := make([]sample, len(sc.contestants)), b.prefix()
	err = together(len(samples), func(i int) error {
		c := sc.contestants[i]
		nodes, err := b.nodesFor(c)
		if err != nil {
			return err
		}
		figures, err := torment(editing{c.name, nodes, store.Addr(), prefix + fmt.Sprint(i), b.editTTL}, processes, duration)
		samples[i] = sample{who: c.name, nodes: c.nodes, figures: figures}
		return err
	})
	return samples, err
}

// torment runs the processes of one contestant, and freezes them in turn.
func torment(told editing, processes int, duration time.Duration) (map[string]float64, error) {
	var all []*child
	var listeners sync.WaitGroup
	defer listeners.Wait()
	defer func() {
		for _, p := range all {
			p.kill()
		}
	}()
	reads, totals := make(chan *child), make(chan tally, processes) // reads unbuffered: who is offered has just read
	for range processes {
		p, err := startChild("editor", told)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
		listeners.Go(func() { listen(p, reads, totals) })
	}
	frozen := 0
	for end := time.Now().Add(duration); frozen == 0 || time.Now().Before(end); frozen++ {
		select {
		case p := <-reads:
			if err := p.Pause(); err != nil {
				return nil, err
			}
			time.Sleep(3 * told.TTL)
			if err := p.Resume(); err != nil {
				return nil, err
			}
			time.Sleep(told.TTL / 2)
		case <-time.After(time.Minute):
			return nil, fmt.Errorf("%s: nobody has the lock", told.Name)
		}
	}
	for _, p := range all {
		_ = p.in.Close()
	}
	sum := newTally()
	for range all {
		select {
		case t := <-totals:
			for name, n := range t {
				sum[name] += n
			}
		case <-time.After(time.Minute):
			var said strings.Builder
			for _, p := range all {
				said.WriteString(p.Log())
			}
			return nil, fmt.Errorf("%s: a process did not come to its end; all have printed:\n%s", told.Name, &said)
		}
	}
	s, err := openStore(told, worker{})
	if err != nil {
		return nil, err
	}
	defer s.close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	number, err := s.read(ctx, 0)
	sum.judge(number)
	sum[pauses] = float64(frozen)
	return sum, err
}

// listen offers a process when it has read, and at its end passes on what it has done. It ends with the process.
func listen(p *child, reads chan<- *child, totals chan<- tally) {
	for p.lines.Scan() {
		if p.lines.Text() != hasRead {
			var t tally
			if json.Unmarshal(p.lines.Bytes(), &t) == nil {
				totals <- t
			}
			continue
		}
		select {
		case reads <- p:
		default:
		}
	}
}

const hasRead = "read"

// editorRole edits until its input ends.
func editorRole(text []byte, parent io.Writer) error {
	var told editing
	if err := json.Unmarshal(text, &told); err != nil {
		return err
	}
	e, err := openEditor(told)
	if err != nil {
		return err
	}
	defer e.close()
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		cancel()
	})
	total := e.edit(ctx, func() { fmt.Fprintln(parent, hasRead) })
	return json.NewEncoder(parent).Encode(total)
}
