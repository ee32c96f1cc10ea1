package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v3"
	"golang.org/x/sync/singleflight"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/endpoint"
	"github.com/quorumlock/redlock/internal/printable"
)

// User and password of a node, as they are when it is connected: those of the URLs in the file of settings, which is
// read anew each time, or what a command prints. What stands in a flag or in the environment cannot change.

const passwordCommandFlag = "password-command"

func passwordFlag() cli.Flag {
	return &cli.StringFlag{
		Name: passwordCommandFlag,
		Usage: "whenever a node is connected, have sh -c run `COMMAND`, and take the first line that it prints for " +
			"the password; URLs then have none",
	}
}

// login is who connects to a node.
type login struct{ user, password string }

// logins knows who connects to each node. settled owns it, and keeps it in the command's Metadata.
type logins struct {
	file    string           // of settings; "": none
	flags   []string         // those of the lists of nodes that the file has given
	command *passwordCommand // nil: none

	mu    sync.Mutex
	known map[string]login // by address; guarded by mu
}

const loginsKey = "logins"

func loginsOf(cmd *cli.Command) *logins {
	l, _ := cmd.Metadata[loginsKey].(*logins)
	return l
}

// end ends what may be under way when the verb has ended.
func (l *logins) end() {
	if l.command != nil {
		l.command.end()
	}
}

// provide has the nodes' credentials be what can change while redlock runs, if anything can, and takes users and
// passwords out of the lists then.
func (l *logins) provide(node *redlock.NodeConfig, cmd *cli.Command, lists ...[]string) error {
	if line := cmd.String(passwordCommandFlag); line != "" {
		l.command = newPasswordCommand(line)
	}
	if l.flags == nil && l.command == nil {
		return nil
	}
	l.known = make(map[string]login)
	for _, urls := range lists {
		before := maps.Clone(l.known)
		for i, url := range urls {
			bare, addr, as, err := splitURL(url)
			if err != nil {
				return nil //nolint:nilerr // New says what is wrong, and with which node
			}
			if other, both := before[addr]; both && other != as {
				return usagef("the server %s is in both lists with different URLs: give both the same", addr)
			}
			if err := l.learn(addr, as); err != nil {
				return usagef("%v", err)
			}
			urls[i] = bare
		}
	}
	node.Credentials = l.of
	return nil
}

func splitURL(url string) (bare, addr string, as login, err error) {
	bare, addr, as.user, as.password, err = endpoint.SplitURL(url)
	return bare, addr, as, err
}

func (l *logins) learn(addr string, as login) error {
	if l.command != nil && as.password != "" { // and a user alone would be a password: redis://secret@host
		return fmt.Errorf("--%s: the URL of %s has a password, too; write a user alone with a colon, redis://USER:@HOST",
			passwordCommandFlag, addr)
	}
	l.known[addr] = as
	return nil
}

// of returns user and password for a node that is about to be connected.
func (l *logins) of(ctx context.Context, addr string) (user, password string, err error) {
	as, err := l.read(addr)
	if err == nil && l.command != nil {
		as.password, err = l.command.get(ctx)
	}
	return as.user, as.password, err
}

// read reads the file anew, if there is one. Of its settings only the lists of nodes matter: a newer redlock may know
// others. A node that has left the file, because the nodes are being changed, is who it was: this process began with
// it, and stays with it.
func (l *logins) read(addr string) (login, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.flags == nil {
		return l.known[addr], nil
	}
	text, err := readConfig(l.file)
	if err != nil {
		return login{}, fmt.Errorf("settings: %w", err)
	}
	values, err := parseConfig(text, nil, nil)
	if err != nil {
		return login{}, fmt.Errorf("%s: %w", l.file, err)
	}
	for _, flag := range l.flags {
		urls := redlock.ParseNodes(values[settingOf(flag)])
		if len(urls) == 0 && flag == "nodes" { // the file may be about to be written
			return login{}, fmt.Errorf("%s: there is no %s any more", l.file, settingOf(flag))
		}
		for i, url := range urls {
			_, addr, as, err := splitURL(url)
			if err == nil {
				err = l.learn(addr, as)
			}
			if err != nil {
				return login{}, fmt.Errorf("%s: %s: node %d: %w", l.file, settingOf(flag), i+1, err)
			}
		}
	}
	return l.known[addr], nil
}

// A run of the command may take this long, which is less than the library waits for; and what it printed, or why it
// failed, is the answer to all who ask within so long after it was started. So nodes that are connected at one moment
// share a run, and a service that is down is asked once a second at most.
const (
	passwordLimit  = 8 * time.Second
	passwordServes = time.Second
)

// passwordCommand gets the password of all nodes from a command.
type passwordCommand struct {
	line          string
	limit, serves time.Duration
	ctx           context.Context // of the runs, which serve several callers
	stop          context.CancelFunc
	runs          singleflight.Group // one at a time, for all who ask meanwhile

	// Owned by the run.
	begun    time.Time // the last one
	password string
	err      error
}

func newPasswordCommand(line string) *passwordCommand {
	c := &passwordCommand{line: line, limit: passwordLimit, serves: passwordServes}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c
}

// end ends the run that may be under way, and waits for it. No run begins any more.
func (c *passwordCommand) end() {
	c.stop()
	_, _, _ = c.runs.Do("", func() (any, error) { return "", context.Canceled })
}

// get returns the password, by a run that is under way, one that has just been, or a new one.
func (c *passwordCommand) get(ctx context.Context) (string, error) {
	run := c.runs.DoChan("", func() (any, error) {
		switch {
		case c.ctx.Err() != nil:
			return "", c.ctx.Err()
		case time.Since(c.begun) < c.serves:
			return c.password, c.err
		}
		c.begun = time.Now()
		if c.password, c.err = c.ask(); c.err != nil {
			c.err = fmt.Errorf("--%s: %w", passwordCommandFlag, c.err)
		}
		return c.password, c.err
	})
	select {
	case r := <-run:
		return r.Val.(string), r.Err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// sureShell is where sh is on every system, whatever the PATH. A variable for tests.
var sureShell = "/bin/sh"

// ask runs the command. Its errors have what it says on standard error, and nothing of its output.
func (c *passwordCommand) ask() (string, error) {
	ctx, cancel := context.WithTimeout(c.ctx, c.limit)
	defer cancel()
	var out, said beginning
	sh, err := exec.LookPath("sh")
	if err != nil {
		sh = sureShell // the PATH is that of env -i, say
	}
	cmd := exec.CommandContext(ctx, sh, "-c", c.line)
	cmd.Stdout, cmd.Stderr = &out, &said
	cmd.WaitDelay = time.Second // what it has left in the background may hold its output open
	inOwnGroup(cmd)
	err = cmd.Run()
	password, _, _ := strings.Cut(out.String(), "\n")
	password = strings.TrimSuffix(password, "\r")
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = fmt.Errorf("not ended within %s", c.limit)
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		if password != "" {
			return password, nil
		}
		err = errors.New("the first line that it prints is empty")
	case slices.Contains([]int{int(exitNotRunnable), int(exitNotFound)}, cmd.ProcessState.ExitCode()),
		errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission): // no command, or no shell
		err = endpoint.Lasting(err)
	}
	if line := said.lastLine(out.String()); line != "" {
		err = fmt.Errorf("%w: %s", err, line)
	}
	return "", err
}

// beginning keeps the beginning of what is written to it.
type beginning struct{ strings.Builder }

func (b *beginning) Write(p []byte) (int, error) {
	if room := 64<<10 - b.Len(); room > 0 {
		b.Builder.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}

// lastLine returns the last line that says something, so that it can stand in an error; "" if it has a line of secret
// in it, as with sh -x.
func (b *beginning) lastLine(secret string) string {
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	line := strings.TrimSpace(lines[len(lines)-1])
	for part := range strings.SplitSeq(secret, "\n") {
		if part = strings.TrimSpace(part); part != "" && strings.Contains(line, part) {
			return ""
		}
	}
	if runes := []rune(line); len(runes) > 200 {
		line = string(runes[:199]) + "…"
	}
	return printable.Text(line)
}
