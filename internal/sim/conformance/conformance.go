// Package conformance is one table of how a node behaves: commands and scripts, in states, with arguments, and what
// comes of them: reply, remaining keys, times to live. The same table runs against the model of package sim, against
// miniredis and against real servers, so that the three cannot drift apart.
package conformance

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Conn is a connection to a node. redigo's redis.Conn is one.
type Conn interface {
	Do(command string, args ...any) (reply any, err error)
}

// Target is an implementation of a node.
type Target struct {
	// Dial returns a connection to a node that the test owns: every case begins with FLUSHALL. A second call in the same
	// test connects to the same node. Connections are closed when the test ends.
	Dial func(t testing.TB) Conn
	// Sleep lets the node's clock go on; nil means time.Sleep.
	Sleep func(d time.Duration)
	// Around runs the body of one case; nil means plainly. The model runs it in a bubble.
	Around func(t *testing.T, body func(t *testing.T))
	// Except names the cases in which the target is known to reply something else. They are run nevertheless: a third
	// reply fails, and so does an exception that is not needed any more. What is left must be the same without exception.
	Except map[string]Exception
}

// Exception is what a target replies instead.
type Exception struct {
	Why  string
	Want any // as in Case
}

// Case is one row. Commands are written as words divided by spaces; a word 'in quotes' may hold spaces. The word
// now+5000 is the node's time in 5 s, in ms since 1970; now-1 was 1 ms ago.
type Case struct {
	Name  string
	Given string        // commands divided by "; " that make the state
	Heard string        // a channel that another connection has subscribed to
	After time.Duration // lets so much time pass between Given and Do
	Do    string        // the command in question; "@release name | alice": a script, its keys, a bar, its arguments
	Want  any           // the reply: int, string (bulk), Status, nil, []any of these, Err, TTL, Any
	Left  string        // all that is left, as State writes it; times to live are exact to a second, rounded up
}

// Status is a simple string.
type Status string

// Err is the beginning of an error reply.
type Err string

// TTL is a number of milliseconds at most so large, and at most a second smaller.
type TTL time.Duration

// Any is a reply that does not matter.
type Any struct{}

// OK is what most writes answer.
const OK = Status("OK")

// Run runs the cases as subtests of t. scripts are the sources of the scripts that cases name with @.
func Run(t *testing.T, target Target, scripts map[string]string, cases ...Case) {
	t.Helper()
	if target.Sleep == nil {
		target.Sleep = time.Sleep
	}
	if target.Around == nil {
		target.Around = func(t *testing.T, body func(*testing.T)) { body(t) }
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			target.Around(t, func(t *testing.T) {
				conn := target.Dial(t)
				if c.Heard != "" {
					if _, err := target.Dial(t).Do("SUBSCRIBE", c.Heard); err != nil {
						t.Fatalf("SUBSCRIBE: %v", err)
					}
				}
				usual := c.Want
				except, excepted := target.Except[c.Name]
				if excepted {
					c.Want = except.Want
				}
				reply, err := c.run(t, conn, target.Sleep, scripts)
				if excepted && matches(reply, err, usual) {
					t.Errorf("agrees by now: drop the exception %q", except.Why)
				}
			})
		})
	}
}

// run reports what is wrong, and returns the reply.
func (c Case) run(t *testing.T, conn Conn, sleep func(time.Duration), scripts map[string]string) (any, error) {
	t.Helper()
	if _, err := conn.Do("FLUSHALL"); err != nil {
		t.Fatalf("FLUSHALL: %v", err)
	}
	if c.Given != "" {
		for line := range strings.SplitSeq(c.Given, "; ") {
			if _, err := do(conn, line, scripts); err != nil {
				t.Fatalf("given %s: %v", line, err)
			}
		}
	}
	if c.After > 0 {
		sleep(c.After)
	}
	reply, err := do(conn, c.Do, scripts)
	if !matches(reply, err, c.Want) {
		t.Errorf("%s: got %s, want %s", c.Do, show(reply, err), showWant(c.Want))
	}
	left, failed := State(conn)
	if failed != nil {
		t.Fatalf("state after %s: %v", c.Do, failed)
	}
	if left != c.Left {
		t.Errorf("%s: left %q, want %q", c.Do, left, c.Left)
	}
	return reply, err
}

// do runs one line: a command, or @script.
func do(conn Conn, line string, scripts map[string]string) (any, error) {
	words := Words(line)
	if name, ok := strings.CutPrefix(words[0], "@"); ok {
		source, known := scripts[name]
		if !known {
			return nil, fmt.Errorf("the caller passed no script named %s", name)
		}
		n := strconv.Itoa(slices.Index(append(words[1:], "|"), "|"))
		rest := slices.DeleteFunc(words[1:], func(w string) bool { return w == "|" })
		words = append([]string{"EVAL", source, n}, rest...)
	}
	args := make([]any, len(words)-1)
	for i, w := range words[1:] {
		args[i] = w
		if ms, ok := strings.CutPrefix(w, "now"); ok {
			off, err := strconv.ParseInt(ms, 10, 64)
			now, failed := timeOf(conn)
			if err = errors.Join(err, failed); err != nil {
				return nil, fmt.Errorf("%s: %w", w, err)
			}
			args[i] = strconv.FormatInt(now+off, 10)
		}
	}
	return conn.Do(words[0], args...)
}

// timeOf returns the node's time in ms.
func timeOf(conn Conn) (int64, error) {
	reply, err := conn.Do("TIME")
	parts := texts(reply)
	if err != nil || len(parts) != 2 {
		return 0, fmt.Errorf("TIME: %v %w", reply, err)
	}
	s, err := strconv.ParseInt(parts[0], 10, 64)
	us, wrong := strconv.ParseInt(parts[1], 10, 64)
	return s*1000 + us/1000, errors.Join(err, wrong)
}

// Words splits at spaces, except within quotes.
func Words(line string) []string {
	var words []string
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimLeft(line, " ") {
		if rest, ok := strings.CutPrefix(line, "'"); ok {
			word, after, _ := strings.Cut(rest, "'")
			words, line = append(words, word), after
			continue
		}
		word, after, _ := strings.Cut(line, " ")
		words, line = append(words, word), after
	}
	return words
}

func matches(reply any, err error, want any) bool {
	switch w := want.(type) {
	case Any:
		return true
	case Err:
		return err != nil && strings.HasPrefix(err.Error(), string(w))
	}
	if err != nil {
		return false
	}
	switch w := want.(type) {
	case nil:
		return reply == nil
	case int:
		return reply == int64(w)
	case string:
		b, ok := reply.([]byte)
		return ok && string(b) == w
	case Status:
		return reply == string(w)
	case TTL:
		ms, ok := reply.(int64)
		most := time.Duration(w).Milliseconds()
		return ok && ms <= most && ms > most-1000
	case []any:
		got, ok := reply.([]any)
		if !ok || len(got) != len(w) {
			return false
		}
		for i := range w {
			if e, isErr := got[i].(error); isErr {
				if !matches(nil, e, w[i]) {
					return false
				}
			} else if !matches(got[i], nil, w[i]) {
				return false
			}
		}
		return true
	}
	panic(fmt.Sprintf("conformance: want of type %T", want))
}

func show(reply any, err error) string {
	if err != nil {
		return "error " + err.Error()
	}
	switch v := reply.(type) {
	case nil:
		return "nil"
	case []byte:
		return strconv.Quote(string(v))
	case string:
		return "status " + v
	case []any:
		parts := make([]string, len(v))
		for i, x := range v {
			parts[i] = show(x, nil)
		}
		return "[" + strings.Join(parts, " ") + "]"
	}
	return fmt.Sprint(reply)
}

func showWant(want any) string {
	switch w := want.(type) {
	case Err:
		return "error " + string(w) + "…"
	case TTL:
		return "at most " + time.Duration(w).String()
	case Status:
		return "status " + string(w)
	case string:
		return strconv.Quote(w)
	case nil:
		return "nil"
	}
	return fmt.Sprint(want)
}

// ErrState says that State met a key that it cannot write.
var ErrState = errors.New("conformance: key of unknown type")

// seconds rounds up: the table's times to live are whole seconds, and less than one passes in a case.
func seconds(ms int64) string { return strconv.Itoa(int(math.Ceil(float64(ms)/1000))) + "s" }
