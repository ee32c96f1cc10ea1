package simtest

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/chance"
	"github.com/quorumlock/redlock/internal/sim"
)

var update = flag.Bool("update", false, "write transcripts anew, by the steps in them")

// The steps of each transcript are played, and what clients and nodes say meanwhile is compared, byte for byte: see
// transcripts/README.md.
func TestTranscripts(t *testing.T) {
	defer func(drawn func(time.Duration) time.Duration) { chance.Duration = drawn }(chance.Duration)
	chance.Duration = func(limit time.Duration) time.Duration { return limit / 2 } // names of functions count in chance.go
	files := cases.Must(filepath.Glob("transcripts/*.txt"))(t)
	cases.Equals(t, len(files), 6, "transcripts")
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, got := string(cases.Must(os.ReadFile(file))(t)), ""
			synctest.Test(t, func(t *testing.T) { got = play(t, want) })
			if *update {
				cases.NoError(t, os.WriteFile(file, []byte(got), 0o600))
			} else if got != want {
				t.Errorf("got\n%s\nTo accept it: go test ./internal/sim/simtest -run Transcripts -update", got)
			}
		})
	}
}

type scene struct {
	net     *sim.Network
	nodes   map[string]*sim.Node
	clients map[string]*redlock.Locker
	locks   map[string]*redlock.Lock // by client

	mu    sync.Mutex        // protects the following fields
	text  strings.Builder   // with owners and tokens as they are
	zero  time.Time         // when the first lock is asked for
	state map[string]string // by node and part
}

// play returns the transcript with what happens in place of what it says.
func play(t *testing.T, transcript string) string {
	t.Helper()
	s := &scene{
		net: sim.NewNetwork(1), nodes: map[string]*sim.Node{}, clients: map[string]*redlock.Locker{},
		locks: map[string]*redlock.Lock{}, state: map[string]string{},
	}
	for _, name := range []string{"n0", "n1", "n2", "n3"} {
		n := sim.NewNode(name+":6379", 1)
		ahead := time.Until(n.Now())
		n.Watch(nil, func(c sim.Command, _ []string, after sim.Data) { s.command(c, after, ahead) })
		s.net.Attach(n)
		s.nodes[name] = n
		defer n.Close()
	}
	quiet := false
	for line := range strings.Lines(transcript) {
		switch step, pause, _ := strings.Cut(strings.TrimSpace(line), " + "); line[0] {
		case '#':
			s.text.WriteString(line)
		case '>':
			if !quiet {
				s.text.WriteByte('\n')
			}
			s.text.WriteString(line)
			before, words := s.text.Len(), strings.Fields(step)
			end := time.Now().Add(cases.Must(time.ParseDuration(cmp.Or(pause, "0s")))(t))
			s.step(t, words[1], words[2], append(words[3:], "", "0s"))
			synctest.Wait()
			time.Sleep(time.Until(end))
			synctest.Wait()
			quiet = s.text.Len() == before
		}
	}
	told := s.text.String()
	for _, c := range s.clients {
		_ = c.Close()
	}
	return abridged(told)
}

// step has a client or a node do something.
func (s *scene) step(t *testing.T, who, verb string, more []string) {
	t.Helper()
	c, n, lock := s.clients[who], s.nodes[who], s.locks[who]
	does := func(f func() error) { go func() { s.tell(who, "", verb+": "+inWords(f())) }() }
	from := func() sim.Link { return sim.Link{Client: more[0], Node: n.Addr()} }
	d, _ := time.ParseDuration(more[1])
	switch verb {
	case "shown":
		s.lists()
	case "opens":
		s.open(who, more[:len(more)-2])
	case "closes":
		does(c.Close)
	case "TryLock":
		go s.lock(t.Context(), who, verb, c.TryLock)
	case "Lock":
		go s.lock(t.Context(), who, verb, c.Lock)
	case "Extend":
		does(func() error { return lock.Extend(t.Context()) })
	case "Unlock":
		does(lock.Unlock)
	case "ForceUnlock":
		does(func() error { return c.ForceUnlock(t.Context(), "job", s.locks[more[0]].Owner()) })
	case "crashes": // without a trace
		n.Crash(false)
		for _, part := range parts {
			delete(s.state, n.Addr()+part)
		}
	case "restarts":
		n.Restart()
	case "far":
		s.net.SetDelay(from(), sim.Up, sim.Delay{Min: d, Max: d})
	case "unreachable":
		s.net.Refuse(from())
		s.net.Cut(from())
	case "stranded": // the connection breaks, and what is on its way comes later
		s.net.Strand(from(), d)
	default:
		t.Fatalf("%s %s: not known", who, verb)
	}
}

// open opens a client. Its way to each node is another one, so no two messages of a scene arrive at one instant.
func (s *scene) open(who string, nodes []string) {
	var urls []string
	for i := range 4 {
		d := time.Duration(1+i)*time.Millisecond + time.Duration(len(s.clients))*100*time.Microsecond
		s.net.SetDelay(sim.Link{Client: who, Node: fmt.Sprintf("n%d:6379", i)}, sim.Both, sim.Delay{Min: d, Max: d})
	}
	for _, n := range nodes {
		urls = append(urls, "redis://"+n+":6379")
	}
	dial := s.net.Dialer(who)
	opts := []redlock.Option{redlock.WithOwnerLabel(who), redlock.WithNodeConfig(redlock.NodeConfig{
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			return &ear{conn, func(text string) { s.tell(addr[:2], who, text) }}, err
		},
	})}
	if both := slices.Index(nodes, "and"); both >= 0 {
		urls, opts = urls[:both], append(opts, redlock.WithNewNodes(urls[both+1:]))
	}
	if locker, err := redlock.New(urls, opts...); err == nil {
		s.clients[who] = locker
	} else {
		fmt.Fprintf(&s.text, "%11s%-16sNew: %s\n", "", who, inWords(err)) // when depends on what this process has seen
	}
}

func (s *scene) lock(ctx context.Context, who, verb string, ask lockCall) {
	s.mu.Lock()
	if s.zero.IsZero() {
		s.zero = time.Now()
	}
	s.mu.Unlock()
	lock, err := ask(ctx, "job")
	if err != nil {
		s.tell(who, "", verb+": "+inWords(err))
		return
	}
	s.locks[who] = lock
	s.tell(who, "", fmt.Sprintf("%s: a hold, token %d, valid until %s", verb, lock.Token(), s.at(lock.Deadline())))
	<-lock.Done()
	s.tell(who, "", "the hold ends: "+inWords(lock.Err()))
}

// inWords says what an error is, and what each node has said.
func inWords(err error) string {
	text := "done"
	for _, is := range []error{redlock.ErrTaken, redlock.ErrNoQuorum, redlock.ErrLost, redlock.ErrUnlocked} {
		if errors.Is(err, is) {
			text = strings.TrimPrefix(is.Error(), "redlock: ")
		}
	}
	if q := (*redlock.QuorumError)(nil); errors.As(err, &q) {
		for _, n := range q.Nodes {
			text += ", " + n.Addr[:2] + " " + n.Outcome
		}
	} else if errors.As(err, new(*redlock.ListConflictError)) {
		text = "conflicting lists of nodes"
	}
	return text
}

// ear is a connection that tells which messages come.
type ear struct {
	net.Conn
	tell func(string)
}

var message = regexp.MustCompile(`\$7\r\nmessage\r\n\$\d+\r\n\S+\r\n\$\d+\r\n(\S+) (\S*) (.*)\r\n`)

func (e *ear) Read(b []byte) (int, error) {
	n, err := e.Conn.Read(b)
	for _, m := range message.FindAllSubmatch(b[:n], -1) {
		e.tell(fmt.Sprintf("message: %s %s", m[1], cmp.Or(string(m[2]), "has it, token accepted")))
	}
	return n, err
}

func (s *scene) at(t time.Time) string { return fmt.Sprintf("%.2fs", t.Sub(s.zero).Seconds()) }

// tell writes a line about one, or about what one says to the other. Cells are aligned in the end.
func (s *scene) tell(from, to, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if to != "" {
		to = "→ " + to
	}
	fmt.Fprintf(&s.text, "%9.1f  %-6s %-8s%s\n", time.Since(s.zero).Seconds()*1000, from, to, text)
}

// command tells of a script that is about the lock. The node's clock is ahead.
func (s *scene) command(c sim.Command, after sim.Data, ahead time.Duration) {
	if c.Args[0] == "script" {
		recognise(c.Args[2])
	}
	if is := scriptOf(c); is.name != "" {
		what, said := aboutLock(c, is, 0)
		s.tell(c.Client, c.Node[:2], what+"\t"+said+"\t"+s.changes(c.Node, after, ahead))
	}
}

var (
	parts = []string{"job", "token", "queue", "revoked"}
	noise = regexp.MustCompile(`[0-9a-f]{12}@|:6379`) // of lists
)

// changes returns which parts of a node's state are others than when it was last looked at.
func (s *scene) changes(node string, after sim.Data, ahead time.Duration) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, changes := map[string]string{"job": after.Text("job")}, []string(nil)
	if state["job"] != "" {
		state["job"] += " until " + s.at(time.UnixMilli(after.Expires("job")).Add(-ahead))
	}
	if score, is := after.Score("redlock:tokens", "job"); is {
		state["token"] = strconv.FormatFloat(score, 'f', -1, 64)
	}
	for _, member := range after.Members("redlock:wait:job") {
		state["queue"] = strings.TrimSpace(state["queue"] + " " + strings.Fields(member)[0])
	}
	state["revoked"] = strings.Join(after.Members("redlock:revoked"), " ")
	for _, part := range parts {
		if s.state[node+part] != state[part] {
			changes = append(changes, part+": "+cmp.Or(state[part], "–"))
		}
		s.state[node+part] = state[part]
	}
	return strings.Join(changes, ", ")
}

// lists writes which lists of nodes are in use at each node, in an order that does not follow from random identities.
func (s *scene) lists() {
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		var lists []string
		for _, member := range s.nodes[name].Do("ZRANGE", "redlock:lists", "(0", "+inf", "BYSCORE").([]any) {
			old, new, _ := strings.Cut(noise.ReplaceAllString(member.(string), ""), "|")
			nodes := fmt.Sprint(slices.Sorted(strings.FieldsSeq(old)), " → ", slices.Sorted(strings.FieldsSeq(new)))
			lists = append(lists, strings.TrimSuffix(nodes, " → []"))
		}
		slices.Sort(lists)
		fmt.Fprintf(&s.text, "%11s%-15s %s\n", "", name, cmp.Or(strings.Join(lists, ", "), "–"))
	}
}

// abridged calls owners by letters, in the order in which they appear, and tokens by numbers that grow as they do.
func abridged(text string) string {
	var owners []string
	text = uuids.ReplaceAllStringFunc(text, func(owner string) string {
		if !slices.Contains(owners, owner) {
			owners = append(owners, owner)
		}
		return string(rune('A' + slices.Index(owners, owner)))
	})
	known := slices.Compact(slices.Sorted(slices.Values(tokens.FindAllString(text, -1))))
	text = tokens.ReplaceAllStringFunc(text, func(t string) string { return strconv.Itoa(1 + slices.Index(known, t)) })
	var aligned strings.Builder
	for line := range strings.Lines(text) {
		if cells := strings.Split(line, "\t"); len(cells) == 3 {
			line = strings.TrimRight(fmt.Sprintf("%-57s %-14s %s", cells[0], cells[1], cells[2]), " \n") + "\n"
		}
		aligned.WriteString(line)
	}
	return aligned.String()
}
