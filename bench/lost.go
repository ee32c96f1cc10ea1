package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/redlock/internal/process"
	"github.com/quorumlock/redlock/internal/redisserver"
)

// Lost updates: processes count up a number together. Each reads it under a lock, thinks, and writes it back. A process
// that has read is frozen for longer than its TTL, again and again, so that it writes when it has lost the lock. Every
// update that was confirmed and is not in the number at the end is lost. All contestants work side by side.
var lostUpdates = scenario{
	name: "lost-updates",
	about: "Beside consensus: processes read, modify and write one number under a lock with a TTL of 2 s; one that has " +
		"read is stopped for three TTLs, again and again.",
	contestants: []contestant{
		edits("SET NX, one master", 1, nil), edits(redlockUnfenced, 5, nil), edits(redlockChecked, 5, nil),
		edits("etcd", 3, etcdOnDisk), edits(etcdChecked, 3, etcdOnDisk),
		edits("ZooKeeper", 3, zooKeeper), edits(zooKeeperChecked, 3, zooKeeper),
	},
	goroutines: []int{3}, // processes
	measure:    (*bench).lose,
	longer:     600,
	rounds:     1,
}

const (
	redlockUnfenced  = "redlock, token not checked"
	redlockChecked   = "redlock, token checked"
	etcdChecked      = "etcd, revision checked"
	zooKeeperChecked = "ZooKeeper, zxid checked"
)

const (
	updates   = "updates" // that were confirmed
	pauses    = "pauses"
	rejected  = "rejected"  // late writes and reads that the store refused
	overwrote = "overwrote" // late writes that it took: of something that the writer had not read
	lost      = "lost"      // updates that the number lacks at the end
)

func edits(name string, nodes int, s *system) contestant {
	return contestant{name: name, nodes: nodes, system: s}
}

// A tally is what has become of the updates of a process, or of all.
type tally struct {
	Updates, Rejected, Overwrote int

	Unknown int // failed: it may be in the number
}

func (t *tally) add(o tally) {
	t.Updates += o.Updates
	t.Rejected += o.Rejected
	t.Overwrote += o.Overwrote
	t.Unknown += o.Unknown
}

// judge compares with the number in the end. An update whose outcome nobody knows is not lost; where it is in the
// number, it may hide one that is.
func (t *tally) judge(number int) map[string]float64 {
	return map[string]float64{
		updates: float64(t.Updates), rejected: float64(t.Rejected), overwrote: float64(t.Overwrote),
		lost: float64(max(0, t.Updates-number)), failed: float64(t.Unknown),
	}
}

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
		samples[i] = sample{who: c.name, figures: figures}
		return err
	})
	return samples, err
}

// torment runs the processes of one contestant, and freezes them in turn.
func torment(told editing, processes int, duration time.Duration) (map[string]float64, error) {
	dir, err := os.MkdirTemp("", "redlock-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var all []*editorProcess
	defer func() {
		for _, p := range all {
			p.kill()
		}
	}()
	reads := make(chan *editorProcess) // unbuffered: who is offered has just read
	for i := range processes {
		p, err := startEditor(told, filepath.Join(dir, fmt.Sprint(i)), reads)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
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
	var sum tally
	for _, p := range all {
		t, err := p.finish()
		if err != nil {
			return nil, fmt.Errorf("%s: %w; it printed:\n%s", told.Name, err, p.Log())
		}
		sum.add(t)
	}
	e, err := openEditor(told)
	if err != nil {
		return nil, err
	}
	defer e.close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	number, err := e.number(ctx)
	figures := sum.judge(number)
	figures[pauses] = float64(frozen)
	return figures, err
}

// An editorProcess is this binary again. It ends when its input does.
type editorProcess struct {
	process.Process
	in    io.Closer
	done  chan struct{} // closed when its output has ended
	total *tally        // what it said at the end
}

const editorEnv = "REDLOCK_BENCH_EDITOR" // editing, in JSON

func startEditor(told editing, log string, reads chan<- *editorProcess) (*editorProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(told)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), editorEnv+"="+string(text))
	p := &editorProcess{done: make(chan struct{})}
	if p.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, said, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer said.Close()
	cmd.ExtraFiles = []*os.File{said} // its descriptor 3
	if err := p.Start(cmd, log); err != nil {
		return nil, errors.Join(err, out.Close())
	}
	go func() {
		defer close(p.done)
		defer out.Close()
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if lines.Text() != hasRead {
				p.total = &tally{}
				if json.Unmarshal(lines.Bytes(), p.total) != nil {
					p.total = nil
				}
				continue
			}
			select {
			case reads <- p:
			default:
			}
		}
	}()
	return p, nil
}

// finish lets it come to an end, and returns what it has done.
func (p *editorProcess) finish() (tally, error) {
	_ = p.in.Close()
	select {
	case <-p.done:
	case <-time.After(time.Minute):
	}
	p.kill()
	if p.total == nil {
		return tally{}, errors.New("a process did not come to its end")
	}
	return *p.total, nil
}

func (p *editorProcess) kill() {
	_ = p.in.Close()
	_ = p.Kill(context.Background())
	<-p.done
}

// asEditor is the main function of such a process. In another it does nothing.
func asEditor() (is bool, err error) {
	text, is := os.LookupEnv(editorEnv)
	if !is {
		return false, nil
	}
	var told editing
	if err := json.Unmarshal([]byte(text), &told); err != nil {
		return true, err
	}
	e, err := openEditor(told)
	if err != nil {
		return true, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		cancel()
	})
	parent := os.NewFile(3, "parent")
	total := e.edit(ctx, func() { fmt.Fprintln(parent, hasRead) })
	group.Wait()
	e.close()
	return true, json.NewEncoder(parent).Encode(total)
}

const hasRead = "read"

// checked says whether the store of a contestant compares tokens.
func checked(name string) bool {
	return slices.Contains([]string{redlockChecked, etcdChecked, zooKeeperChecked}, name)
}
