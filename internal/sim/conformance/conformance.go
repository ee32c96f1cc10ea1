// Package conformance is one table of how a node behaves: commands and scripts, in states, with arguments, and what
// comes of them: reply, remaining keys, times to live. The same table runs against the model of package sim, against
// miniredis and against real servers, so that the three cannot drift apart. The rows are the files under cases/, in
// the notation that cases/README.md describes.
package conformance

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/cases"
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
	Want string // as in Case
}

// Run runs all cases as subtests of t. scripts are the sources of the scripts that cases name with @.
func Run(t *testing.T, target Target, scripts map[string]string) {
	t.Helper()
	table := cases.Must(Cases())(t)
	var all []Case
	for _, group := range slices.Sorted(maps.Keys(table)) {
		all = append(all, table[group]...)
	}
	if len(all) < 100 {
		t.Fatalf("the table has %d cases: something is missing", len(all))
	}
	t.Logf("%d cases", len(all))
	if target.Sleep == nil {
		target.Sleep = time.Sleep
	}
	if target.Around == nil {
		target.Around = func(t *testing.T, body func(*testing.T)) { body(t) }
	}
	for _, c := range all {
		t.Run(c.Name, func(t *testing.T) {
			target.Around(t, func(t *testing.T) {
				conn := target.Dial(t)
				if c.Heard != "" {
					if _, err := target.Dial(t).Do("SUBSCRIBE", c.Heard); err != nil {
						t.Fatalf("SUBSCRIBE: %v", err)
					}
				}
				usual, _ := parseWant(c.Want) // it was read before
				except, excepted := target.Except[c.Name]
				if excepted {
					c.Want = except.Want
				}
				shown := c.run(t, conn, target.Sleep, scripts)
				if excepted && usual.matches(shown) {
					t.Errorf("%s: agrees by now: drop the exception %q", c.at, except.Why)
				}
			})
		})
	}
}

// run reports what is wrong, and returns the reply as it is shown.
func (c Case) run(t *testing.T, conn Conn, sleep func(time.Duration), scripts map[string]string) string {
	t.Helper()
	if _, err := conn.Do("FLUSHALL"); err != nil {
		t.Fatalf("FLUSHALL: %v", err)
	}
	if c.Given != "" {
		for line := range strings.SplitSeq(c.Given, "; ") {
			if _, err := do(conn, line, scripts); err != nil {
				t.Fatalf("%s: given %s: %v", c.at, line, err)
			}
		}
	}
	if c.After > 0 {
		sleep(c.After)
	}
	shown := show(do(conn, c.Do, scripts))
	if w, err := parseWant(c.Want); err != nil || !w.matches(shown) {
		t.Errorf("%s: %s: got %s, want %s", c.at, c.Do, shown, c.Want)
	}
	left, failed := state(conn)
	if failed != nil {
		t.Fatalf("%s: state after %s: %v", c.at, c.Do, failed)
	}
	if left != c.Left {
		t.Errorf("%s: %s: left %q, want %q", c.at, c.Do, left, c.Left)
	}
	return shown
}

// do runs one line: a command, or @script.
func do(conn Conn, line string, scripts map[string]string) (any, error) {
	words := words(line)
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

// seconds rounds up: the table's times to live are whole seconds, and less than one passes in a case.
func seconds(ms int64) string { return strconv.Itoa(int(math.Ceil(float64(ms)/1000))) + "s" }
