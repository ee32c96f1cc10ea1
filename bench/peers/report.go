package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/redisserver"
)

// A result is what the subjects of a fault have shown, in their order.
type result struct {
	fault    fault
	outcomes []outcome
}

// surroundings says what all runs share.
func surroundings() (string, error) {
	binary, err := redisserver.Find()
	if err != nil {
		return "", err
	}
	server, err := redisserver.Version(binary)
	return fmt.Sprintf("%s, %s, %s/%s, %d CPUs",
		server, runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU()), err
}

// version is a module's, as this program was built with it.
func version(module string) string {
	info, _ := debug.ReadBuildInfo() // none without modules, and this is one
	if info == nil {
		return "of unknown version"
	}
	for _, m := range info.Deps {
		if m.Path == module {
			if m.Replace != nil {
				return "of this checkout"
			}
			return strings.TrimPrefix(m.Version, "v")
		}
	}
	return "of unknown version"
}

// title is the library with its version, and the client's.
func (s subject) title() string {
	t := s.library + " " + version(s.module)
	if s.client != "" {
		t += " with " + clientNames[s.client] + " " + version(s.client)
	}
	return t
}

var clientNames = map[string]string{redigoModule: "redigo", goRedisModule: "go-redis"}

// setup is the subject's configuration.
func (s subject) setup() string {
	if s.masters == 1 {
		return "1 master; " + s.config
	}
	return fmt.Sprintf("%d masters; %s", s.masters, s.config)
}

// A writer writes the rows of one fault, as they come.
type writer struct {
	io.Writer

	title, setup int // the widths of columns
}

// head writes what a fault is about.
func (f fault) head(to io.Writer) *writer {
	w := &writer{Writer: to}
	for _, s := range f.subjects() {
		w.title = max(w.title, utf8.RuneCountInString(s.title()))
		w.setup = max(w.setup, utf8.RuneCountInString(s.setup()))
	}
	fmt.Fprintf(w, "%s\n  %s\n  Expected: %s\n", f.name, f.about, f.want)
	return w
}

func (w *writer) row(s subject, o outcome) {
	fmt.Fprintf(w, "  %-*s  %-*s  %-3s  %s\n", w.title, s.title(), w.setup, s.setup(), yes(o.expected), o.seen)
}

// list writes the fault and its subjects, which nobody runs.
func (f fault) list(to io.Writer) {
	w := f.head(to)
	for _, s := range f.subjects() {
		fmt.Fprintf(w, "  %-*s  %s\n", w.title, s.title(), s.setup())
	}
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// table writes all results as a table in Markdown.
func table(about string, results []result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s.\n\n", about)
	b.WriteString("| fault | library, version, configuration | as expected? what was seen | " +
		"redlock under the same fault | program (`go run -C bench ./peers -run NAME`) | tests here |\n" +
		"|---|---|---|---|---|---|\n")
	for _, r := range results {
		last := len(r.fault.peers)
		for i, s := range r.fault.peers {
			cells := []string{"", s.title() + "; " + s.setup(), r.outcomes[i].cell(), "", "", ""}
			if i == 0 {
				cells[0] = r.fault.about + " Expected: " + r.fault.want
				cells[3] = r.outcomes[last].cell()
				cells[4] = "`" + r.fault.name + "`"
				cells[5] = "`" + strings.Join(r.fault.tests, "`, `") + "`"
			}
			for i, c := range cells {
				cells[i] = strings.ReplaceAll(c, "|", `\|`)
			}
			fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
		}
	}
	return b.String()
}

func (o outcome) cell() string { return yes(o.expected) + ": " + o.seen }

// figure writes a duration as exactly as it can be expected again.
func figure(d time.Duration) string {
	switch {
	case d < 9950*time.Microsecond:
		return fmt.Sprintf("%.1f ms", float64(d)/1e6)
	case d < 950*time.Millisecond:
		return fmt.Sprintf("%.0f ms", float64(d)/1e6)
	default:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
}

var sentinels = []struct {
	err  error
	name string
}{
	{redlock.ErrTaken, "ErrTaken"},
	{redlock.ErrNoQuorum, "ErrNoQuorum"},
	{redlock.ErrLost, "ErrLost"},
	{redlock.ErrInvalid, "ErrInvalid"},
	{context.DeadlineExceeded, "context.DeadlineExceeded"},
}

// noise is what differs from run to run, or says nothing about the library.
var noise = regexp.MustCompile(`(read|write) (tcp|unix) \S+: | script: .*`)

// brief is an error's text, or the names of what errors.Is finds in one of this library's.
func brief(err error) string {
	if err == nil {
		return "no error"
	}
	if !strings.HasPrefix(err.Error(), "redlock:") {
		return strings.ReplaceAll(noise.ReplaceAllString(err.Error(), ""), "\n", "; ")
	}
	var names []string
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			names = append(names, s.name)
		}
	}
	return strings.Join(names, " and ")
}
