package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/redlock"
)

// version is a module's, as this program was built with it.
func version(module string) string {
	info, _ := debug.ReadBuildInfo() // there is one: this is a module
	i := slices.IndexFunc(info.Deps, func(m *debug.Module) bool { return m.Path == module })
	switch {
	case i < 0:
		return "of unknown version" // in a test
	case info.Deps[i].Replace != nil:
		return "of this checkout"
	}
	return strings.TrimPrefix(info.Deps[i].Version, "v")
}

// String is the library and its client, with their versions, and the configuration.
func (s subject) String() string {
	text := s.name + " " + version(s.module)
	if s.client != "" {
		text += " with " + clientNames[s.client] + " " + version(s.client)
	}
	if s.nodes == 1 {
		return text + "; 1 master; " + s.config
	}
	return fmt.Sprintf("%s; %d masters; %s", text, s.nodes, s.config)
}

var clientNames = map[string]string{redigoModule: "redigo", goRedisModule: "go-redis"}

// head says what a fault is about.
func (f fault) head() string {
	return fmt.Sprintf("%s\n  %s\n  Expected: %s\n", f.name, f.about, f.want)
}

func figure(d time.Duration) string { return number(us(d)/1000) + " ms" }

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
