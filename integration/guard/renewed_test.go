package guard_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
	"github.com/quorumlock/redlock/internal/redisserver"
)

// owned are masters that are asked over their sockets, whatever they want from others.
type owned []*redisserver.Server

func launch(t *testing.T, n int, c redisserver.Config) (list owned) {
	t.Helper()
	if os.Getenv("REDLOCK_PROVIDER") == masters.Containers {
		t.Skip("these servers are processes")
	}
	for range n {
		s, err := redisserver.Launch(t.Context(), c)
		fleet.Must(t, err)
		t.Cleanup(func() { _ = s.Remove(context.Background()) })
		list = append(list, s)
	}
	return list
}

func (list owned) urls(scheme string) string {
	var urls []string
	for _, s := range list {
		urls = append(urls, scheme+s.Addr())
	}
	return strings.Join(urls, " ")
}

// each sends a command to each master, and returns the replies as text.
func (list owned) each(t *testing.T, args ...any) (replies []string) {
	t.Helper()
	for _, s := range list {
		c, err := redis.Dial("unix", s.Socket())
		fleet.Must(t, err)
		reply, err := c.Do(args[0].(string), args[1:]...)
		fleet.Must(t, err)
		fleet.Must(t, c.Close())
		if text, ok := reply.([]byte); ok {
			reply = string(text)
		}
		replies = append(replies, fmt.Sprint(reply))
	}
	return replies
}

// kill ends all connections but those over sockets.
func (list owned) kill(t *testing.T) {
	t.Helper()
	for i, s := range list {
		for line := range strings.Lines(list[i:i+1].each(t, "CLIENT", "LIST")[0]) {
			if !strings.Contains(line, " addr="+s.Socket()) {
				id, _, _ := strings.Cut(strings.TrimPrefix(line, "id="), " ")
				list[i:i+1].each(t, "CLIENT", "KILL", "ID", id)
			}
		}
	}
}

// connected reports whether each master has a connection over the network that has begun since an ID, and has used a
// script: then the handshake is over.
func (list owned) connected(t *testing.T, since []int) bool {
	t.Helper()
	for i, s := range list {
		found := false
		for line := range strings.Lines(list[i:i+1].each(t, "CLIENT", "LIST")[0]) {
			var id int
			_, err := fmt.Sscanf(line, "id=%d ", &id)
			fleet.Must(t, err)
			found = found || id > since[i] && !strings.Contains(line, " addr="+s.Socket()) && strings.Contains(line, "cmd=eval")
		}
		if !found {
			return false
		}
	}
	return true
}

// lastIDs returns the ID of the last connection of each master.
func (list owned) lastIDs(t *testing.T) (ids []int) {
	t.Helper()
	for _, reply := range list.each(t, "CLIENT", "ID") {
		var id int
		_, err := fmt.Sscan(reply, &id)
		fleet.Must(t, err)
		ids = append(ids, id)
	}
	return ids
}

// holding is a redlock that holds a lock until its command's input ends.
type holding struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	mu     sync.Mutex // guards out
	out    bytes.Buffer
	ended  chan struct{}
	failed error
}

func (h *holding) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.out.Write(p)
}

func (h *holding) said() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.out.String()
}

func hold(t *testing.T, binary string, settings ...string) *holding {
	t.Helper()
	h := &holding{cmd: exec.Command(binary, "run", "job", "sh", "-c", "echo held; read line"), ended: make(chan struct{})}
	settings = append(settings, "REDLOCK_NODE_TIMEOUT=5s", "REDLOCK_TTL=2m", "REDLOCK_NO_RESTART_GUARD=true")
	h.cmd.Env = append(os.Environ(), settings...)
	h.cmd.Stdout, h.cmd.Stderr = h, h
	var err error
	h.stdin, err = h.cmd.StdinPipe()
	fleet.Must(t, err)
	fleet.Must(t, h.cmd.Start())
	go func() {
		defer close(h.ended)
		h.failed = h.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = h.cmd.Process.Kill() // it may have ended
		<-h.ended
	})
	if fleet.Soon(func() bool { return h.said() != "" }); h.said() != "held\n" {
		t.Fatalf("the lock is not held: %q", h.said())
	}
	return h
}

// end has the command end, and wants that the lock was held all the while, and that nothing was said but why nodes did
// not vote meanwhile.
func (h *holding) end(t *testing.T) {
	t.Helper()
	_ = h.stdin.Close() // its end says the rest
	select {
	case <-h.ended:
	case <-time.After(2 * time.Minute):
		t.Fatal("redlock does not end")
	}
	// "read" fails at the end of its input.
	var rest strings.Builder
	for line := range strings.Lines(h.said()) {
		if !strings.HasPrefix(line, "redlock: 127.0.0.1:") || !strings.Contains(line, " does not vote: ") {
			rest.WriteString(line)
		}
	}
	secret := strings.Contains(h.said(), "hunter")
	if got := h.cmd.ProcessState.ExitCode(); got != 1 || secret || rest.String() != "held\n" {
		t.Errorf("got %v, and it said %q; want that the lock was held all the while", h.failed, h.said())
	}
}

// While redlock holds a lock, the certificates of clients and servers are renewed by another authority, and all
// connections are lost: it goes on with the files as they are, and keeps the lock. A file that is broken at first is
// read again.
func TestRenewedCertificatesKeepTheLock(t *testing.T) {
	t.Parallel()
	binary, dir := buildCommand(t), t.TempDir()
	files := map[string]string{}
	var authorities []*redisserver.Authority
	for _, which := range []string{"", "new-"} {
		a, err := redisserver.NewAuthority()
		fleet.Must(t, err)
		authorities = append(authorities, a)
		for name, text := range a.Files() {
			files[which+name] = text
		}
	}
	list := launch(t, 3, redisserver.Config{
		Args: append(authorities[0].Args(), "--tls-auth-clients", "yes"), Files: files,
	})
	put := func(file, text string) {
		fleet.Must(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	}
	for _, name := range []string{"ca.pem", "server.pem", "server-key.pem"} {
		put(name, files[name])
	}
	h := hold(t, binary, "REDLOCK_NODES="+list.urls("rediss://"), "REDLOCK_CA="+filepath.Join(dir, "ca.pem"),
		"REDLOCK_CERT="+filepath.Join(dir, "server.pem"), "REDLOCK_KEY="+filepath.Join(dir, "server-key.pem"))
	for i, s := range list {
		at := filepath.Dir(s.Socket())
		list[i:i+1].each(t, "CONFIG", "SET", "tls-cert-file", at+"/new-server.pem",
			"tls-key-file", at+"/new-server-key.pem", "tls-ca-cert-file", at+"/new-ca.pem")
	}
	put("ca.pem", files["new-ca.pem"][:50])
	before := list.lastIDs(t)
	list.kill(t)
	attempts := func() bool { // each master has seen attempts to connect, none of which came far
		for i, id := range list.lastIDs(t) {
			if id < before[i]+20 {
				return false
			}
		}
		return true
	}
	fleet.Eventually(t, "redlock tries", attempts)
	put("ca.pem", files["new-ca.pem"])
	put("server.pem", files["new-server.pem"]) // before its key
	put("server-key.pem", files["new-server-key.pem"])
	fleet.Eventually(t, "redlock is connected again", func() bool { return list.connected(t, before) })
	h.end(t)
}

// While redlock holds a lock, the password is changed on all servers and then where redlock gets it from, and all
// connections are lost. Nothing that is said shows a password.
func TestRotatedPasswordsKeepTheLock(t *testing.T) {
	t.Parallel()
	binary := buildCommand(t)
	for name, c := range map[string]struct {
		conf string // %NODES% and %FILE% stand for the URLs, and for a file with the password
		file string // what is in that file, with SECRET for the password
	}{
		"in the file of settings": {"REDLOCK_NODES=%NODES%\n", ""},
		"in a file that the file of settings names": {
			"REDLOCK_NODES=%NODES%\nREDLOCK_PASSWORD_COMMAND=cat %FILE%\n", "SECRET",
		},
		"by a command that fails once": {
			"REDLOCK_NODES=%NODES%\n" +
				"REDLOCK_PASSWORD_COMMAND=if [ -s %FILE% ]; then cat %FILE%; else echo run >>%FILE%.failed; exit 1; fi\n",
			"SECRET\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list := launch(t, 3, redisserver.Config{})
			conf, file := filepath.Join(t.TempDir(), "conf"), filepath.Join(t.TempDir(), "password")
			put := func(password string) {
				urls := list.urls("redis://app:@")
				if c.file == "" {
					urls = list.urls("redis://app:" + password + "@")
				}
				text := strings.NewReplacer("%NODES%", urls, "%FILE%", file).Replace(c.conf)
				fleet.Must(t, os.WriteFile(conf, []byte(text), 0o600))
				fleet.Must(t, os.WriteFile(file, []byte(strings.ReplaceAll(c.file, "SECRET", password)), 0o600))
			}
			list.each(t, "ACL", "SETUSER", "app", "on", ">hunter2", "~*", "&*", "+@all")
			list.each(t, "CONFIG", "RESETSTAT")
			put("hunter2")
			h := hold(t, binary, "REDLOCK_CONFIG="+conf)
			list.each(t, "ACL", "SETUSER", "app", ">hunter3", "<hunter2")
			if strings.HasSuffix(name, "once") {
				fleet.Must(t, os.Truncate(file, 0))
			}
			before := list.lastIDs(t)
			list.kill(t)
			if strings.HasSuffix(name, "once") {
				fleet.Eventually(t, "the command fails", func() bool { _, err := os.Stat(file + ".failed"); return err == nil })
			} else {
				fleet.Eventually(t, "the password is refused", func() bool {
					return strings.Count(strings.Join(list.each(t, "INFO", "errorstats"), ""), "WRONGPASS") == len(list)
				})
			}
			put("hunter3")
			fleet.Eventually(t, "redlock is connected again", func() bool { return list.connected(t, before) })
			h.end(t)
		})
	}
}
