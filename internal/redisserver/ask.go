package redisserver

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Version returns the version that a binary prints: "Redis server v=7.0.15".
func Version(binary string) (string, error) {
	out, err := exec.Command(binary, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", binary, err)
	}
	version, _, _ := strings.Cut(strings.TrimSpace(string(out)), " sha=")
	return version, nil
}

// Await returns when a server answers PING over a connection that dial makes; a server that loads its data does not. It
// fails, with the server's log, when ctx is done or the server has exited.
func Await(
	ctx context.Context, dial func(context.Context) (redis.Conn, error), exited func() bool, log func() string,
) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		c, err := dial(ctx)
		if err == nil {
			_, err = c.Do("PING")
			_ = c.Close() // only the reply matters
		}
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || exited() {
			return fmt.Errorf("the server does not answer: %w; it printed:\n%s", err, log())
		}
		time.Sleep(pause)
	}
}

// Info returns the fields of one INFO section.
func Info(c redis.Conn, section string) (map[string]string, error) {
	text, err := redis.String(c.Do("INFO", section))
	if err != nil {
		return nil, err
	}
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[key] = value
		}
	}
	return fields, nil
}

// CommandStats returns how often each command was called since the start or the last CONFIG RESETSTAT. The names are in
// lower case.
func CommandStats(c redis.Conn) (map[string]int, error) {
	fields, err := Info(c, "commandstats")
	if err != nil {
		return nil, err
	}
	calls := map[string]int{}
	for key, value := range fields {
		if name, isCommand := strings.CutPrefix(key, "cmdstat_"); isCommand {
			first, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
			if calls[name], err = strconv.Atoi(first); err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	return calls, nil
}
