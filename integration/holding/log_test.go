package holding_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
)

// journal is a log that is written by several goroutines.
type journal struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// Three of five masters are killed under a thousand holds: the log stays short, and the observer misses nothing.
func TestTheLogOfAThousandLosses(t *testing.T) {
	const many, maxLines = 1000, 20
	f := fleet.Start(t, 5)
	var log journal
	var mu sync.Mutex // guards the three below
	notRenewed, lost, dropped, events := map[string]int{}, map[string]int{}, 0, 0
	l := f.Locker(t, redlock.WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
		redlock.WithObserver(func(ev redlock.Event) {
			mu.Lock()
			defer mu.Unlock()
			dropped += ev.Dropped
			events++
			switch ev.Kind {
			case redlock.EventNotRenewed:
				notRenewed[ev.Name]++
			case redlock.EventLost:
				lost[ev.Name]++
			default:
			}
		}))
	held := make([]*redlock.Lock, many)
	for i := range held {
		held[i] = lock(t, l, fmt.Sprintf("held-%d", i))
	}
	log.mu.Lock()
	log.text.Reset()
	log.mu.Unlock()
	for _, n := range f.Nodes[:3] {
		fleet.Must(t, n.Kill())
	}
	for _, k := range held {
		<-k.Done()
	}
	runtime.KeepAlive(held)
	fleet.Must(t, l.Close()) // which delivers what is queued and writes what is pending

	log.mu.Lock()
	defer log.mu.Unlock()
	mu.Lock()
	defer mu.Unlock()
	failures := 0
	for _, k := range held {
		failures += notRenewed[k.Name()]
		if notRenewed[k.Name()] == 0 || lost[k.Name()] != 1 {
			t.Errorf("%s: %d renewals that failed and %d losses were observed", k.Name(), notRenewed[k.Name()], lost[k.Name()])
		}
	}
	lines := bytes.Count(log.text.Bytes(), []byte("\n"))
	t.Logf("%d lines, %d bytes; %d events, of them %d renewals that failed and %d losses; %d dropped\n%s",
		lines, log.text.Len(), events, failures, len(lost), dropped, log.text.Bytes())
	if lines > maxLines {
		t.Errorf("the log has %d lines, want %d at most", lines, maxLines)
	}
	if dropped > 0 {
		t.Errorf("%d events were dropped", dropped)
	}
	for _, want := range []string{
		`msg="no majority: nobody can lock"`, `msg="not renewed" name=held-`, "msg=lost name=held-",
	} {
		if !bytes.Contains(log.text.Bytes(), []byte(want)) {
			t.Errorf("the log lacks %s", want)
		}
	}
}

// A server that closes idle connections, and takes new ones at once, is no outage: nothing is logged of it, and a note
// says what to set. One that is killed is.
func TestIdleConnectionsThatServersCloseAreNoOutage(t *testing.T) {
	t.Parallel()
	f := fleet.StartSpec(t, 3, masters.Spec{Args: []string{"--timeout", "2"}})
	var log journal
	l := f.Locker(t, redlock.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	fleet.Must(t, l.Ready(t.Context()))
	warnings := func() int {
		log.mu.Lock()
		defer log.mu.Unlock()
		return bytes.Count(log.text.Bytes(), []byte("level=WARN"))
	}
	before, asked := connectionsReceived(t, f), 0
	fleet.Eventually(t, "servers have closed idle connections, which are made again", func() bool {
		time.Sleep(time.Second)
		asked += len(f.Nodes) // by connections of this test's own
		return connectionsReceived(t, f)-before-asked >= len(f.Nodes)
	})
	k, err := l.TryLock(t.Context(), "job")
	fleet.Must(t, err)
	fleet.Must(t, k.Unlock(t.Context()))
	if n := warnings(); n > 0 {
		t.Errorf("%d warnings:\n%s", n, &log.text)
	}
	fleet.Eventually(t, "the finding says what to set", func() bool { // at any moment, a node may not be connected
		for _, n := range l.Nodes(t.Context()) {
			if !slices.ContainsFunc(n.Findings, func(f redlock.Finding) bool {
				return f.Code == "timeout" && f.Severity == redlock.SeverityNote
			}) {
				return false
			}
		}
		return true
	})
	fleet.Must(t, f.Nodes[0].Kill())
	fleet.Eventually(t, "the log says that a node is down", func() bool { return warnings() > 0 })
}

func connectionsReceived(t *testing.T, f fleet.Fleet) (n int) {
	t.Helper()
	for _, node := range f.Nodes {
		info, err := redis.String(node.Do("INFO", "stats"))
		fleet.Must(t, err)
		_, rest, _ := strings.Cut(info, "total_connections_received:")
		text, _, _ := strings.Cut(rest, "\r")
		got, err := strconv.Atoi(text)
		fleet.Must(t, err)
		n += got
	}
	return n
}
