//go:build unix

package redisserver_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/redisserver"
)

// The servers here are this test's own binary, which acts as a server if the environment says so: the unit tests need
// no redis-server. integration/masters has the tests with a real one.
const acting = "REDLOCK_TEST_ACTING"

func TestMain(m *testing.M) {
	switch os.Getenv(acting) {
	case "server":
		act(os.Args[1:])
	case "parent":
		parent()
	default:
		os.Exit(m.Run())
	}
}

// act is a server that knows PING and INFO, and obeys some arguments of the tests.
func act(args []string) {
	if args[0] == "--version" {
		fmt.Println("Redis server v=7.0.15 sha=00000000:0 malloc=libc")
		return
	}
	given := map[string]string{}
	for i := 0; i+1 < len(args); i += 2 {
		given[args[i]] = args[i+1]
	}
	if why, fails := given["--fail"]; fails {
		fmt.Println(why)
		os.Exit(1)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(given["--bind"], given["--port"]))
	if err != nil {
		fmt.Println("bind: Address already in use")
		os.Exit(1)
	}
	_ = os.Remove(given["--unixsocket"]) // of a server that was killed
	socket, err := net.Listen("unix", given["--unixsocket"])
	if err != nil {
		panic(err)
	}
	fmt.Println("Ready to accept connections")
	loaded := time.Now()
	if took, err := time.ParseDuration(given["--loading"]); err == nil {
		loaded = loaded.Add(took)
	}
	go answer(l, loaded)
	answer(socket, loaded)
}

func answer(l net.Listener, loaded time.Time) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() { // until the other side is closed
			for words := bufio.NewScanner(c); words.Scan(); {
				switch {
				case words.Text() == "PING" && time.Now().Before(loaded):
					_, _ = c.Write([]byte("-LOADING Redis is loading the dataset in memory\r\n"))
				case words.Text() == "PING":
					_, _ = c.Write([]byte("+PONG\r\n"))
				case words.Text() == "INFO":
					text := "# Commandstats\r\ncmdstat_set:calls=7,usec=1\r\ncmdstat_config|get:calls=2,usec=3\r\nother:1"
					_, _ = fmt.Fprintf(c, "$%d\r\n%s\r\n", len(text), text)
				}
			}
		}()
	}
}

// parent starts a server, prints the server's process ID, and waits to be killed.
func parent() {
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	must(os.Setenv(acting, "server"))
	s, err := redisserver.Launch(context.Background(), redisserver.Config{Binary: os.Args[0]})
	must(err)
	fmt.Println(s.PID())
	select {}
}

// launch starts a server that the test's cleanup removes.
func launch(t *testing.T, c redisserver.Config) *redisserver.Server {
	t.Helper()
	s, err := try(t, c)
	cases.NoError(t, err)
	t.Cleanup(func() { cases.NoError(t, s.Remove(context.Background())) })
	return s
}

func try(t *testing.T, c redisserver.Config) (*redisserver.Server, error) {
	t.Helper()
	t.Setenv(acting, "server")
	c.Binary = os.Args[0]
	return redisserver.Launch(t.Context(), c)
}

// soon is how long a test waits for something that should happen at once, on a machine that may be busy.
const soon = 30 * time.Second

func ping(network, address string) error { return pingWithin(soon, network, address) }

func pingWithin(timeout time.Duration, network, address string) error {
	c, err := redis.Dial(network, address, redis.DialReadTimeout(timeout))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // the answer is what counts
	_, err = c.Do("PING")
	return err
}

func TestAServerAnswersUntilItIsRemoved(t *testing.T) {
	s, err := try(t, redisserver.Config{Files: map[string]string{"users.acl": "user default on"}})
	cases.NoError(t, err)
	cases.NoError(t, ping("tcp", s.Addr()))
	cases.NoError(t, ping("unix", s.Socket()))
	dir := filepath.Dir(s.Socket())
	if text, err := os.ReadFile(filepath.Join(dir, "users.acl")); err != nil || string(text) != "user default on" {
		t.Errorf("its file: got %q, %v", text, err)
	}
	if !strings.Contains(s.Log(), "Ready") {
		t.Errorf("its log: got %q", s.Log())
	}
	cases.NoError(t, s.Remove(t.Context()))
	if err := ping("tcp", s.Addr()); err == nil {
		t.Error("a server that was removed answers")
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its directory: got %v, want none", err)
	}
	l, err := net.Listen("tcp", s.Addr())
	cases.NoError(t, err)
	cases.NoError(t, l.Close())
}

func TestAServerEndsAndStartsAgainAtItsAddress(t *testing.T) {
	s := launch(t, redisserver.Config{Files: map[string]string{"ours": ""}})
	written := filepath.Join(filepath.Dir(s.Socket()), "dump.rdb")
	cases.NoError(t, os.WriteFile(written, nil, 0o600))
	for name, end := range map[string]func(context.Context) error{
		"Kill": s.Kill,
		"Stop": s.Stop,
		"Kill while frozen": func(ctx context.Context) error {
			return errors.Join(s.Pause(), s.Kill(ctx))
		},
	} {
		addr, pid := s.Addr(), s.PID()
		if err := s.Start(t.Context()); err == nil {
			t.Errorf("before %s: a server that runs starts", name)
		}
		cases.NoError(t, end(t.Context()))
		cases.NoError(t, s.Kill(t.Context())) // a second time is no error
		if err := ping("tcp", addr); err == nil {
			t.Errorf("after %s: it answers", name)
		}
		if s.PID() != 0 || s.Pause() == nil {
			t.Errorf("after %s: got the process %d, want none", name, s.PID())
		}
		cases.NoError(t, s.Start(t.Context()))
		cases.NoError(t, ping("tcp", addr))
		if s.Addr() != addr || s.PID() == pid {
			t.Errorf("after %s: got %s, process %d; want %s, and another than %d", name, s.Addr(), s.PID(), addr, pid)
		}
		if _, err := os.Stat(written); err != nil {
			t.Errorf("after %s: what it wrote: %v", name, err)
		}
	}
	cases.NoError(t, s.Kill(t.Context()))
	cases.NoError(t, s.Wipe())
	files, err := os.ReadDir(filepath.Dir(written))
	cases.NoError(t, err)
	if len(files) != 1 || files[0].Name() != "ours" {
		t.Errorf("after Wipe: got %v, want the file that it was given", files)
	}
	cases.NoError(t, s.Start(t.Context()))
}

func TestAFrozenServerIsSilentUntilItIsResumed(t *testing.T) {
	s := launch(t, redisserver.Config{})
	cases.NoError(t, s.Pause())
	err := pingWithin(50*time.Millisecond, "tcp", s.Addr())
	for begun := time.Now(); err == nil && time.Since(begun) < soon; { // one of its threads may still run for a moment
		err = pingWithin(50*time.Millisecond, "tcp", s.Addr())
	}
	var silence net.Error
	if !errors.As(err, &silence) || !silence.Timeout() {
		t.Errorf("frozen: got %v, want a timeout", err)
	}
	cases.NoError(t, s.Resume())
	cases.NoError(t, ping("unix", s.Socket()))
}

func TestLaunchWaitsForTheData(t *testing.T) {
	s := launch(t, redisserver.Config{Args: []string{"--loading", "200ms"}})
	cases.NoError(t, ping("tcp", s.Addr()))
}

func TestNothingIsWaitedForLongerThanTheContext(t *testing.T) {
	t.Setenv(acting, "server")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := redisserver.Launch(ctx, redisserver.Config{Binary: os.Args[0], Args: []string{"--loading", "1h"}})
	if err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("Launch: got %v, want that it does not answer", err)
	}
	s := launch(t, redisserver.Config{})
	cases.NoError(t, s.Pause())
	if err := s.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Stop, while frozen: got %v, want the context's end", err)
	}
}

func TestAServerThatCannotStartSaysWhy(t *testing.T) {
	const why = "Bad directive"
	if _, err := try(t, redisserver.Config{Args: []string{"--fail", why}}); err == nil ||
		!strings.Contains(err.Error(), why) {
		t.Errorf("got %v, want %q", err, why)
	}
}

func TestAnotherOneOnItsPortIsNotTakenForIt(t *testing.T) {
	s := launch(t, redisserver.Config{})
	cases.NoError(t, s.Kill(t.Context()))
	other, err := net.Listen("tcp", s.Addr())
	cases.NoError(t, err)
	var acting sync.WaitGroup
	acting.Go(func() { answer(other, time.Now()) })
	if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "Address already in use") {
		t.Errorf("got %v, want that the address is in use", err)
	}
	cases.NoError(t, other.Close())
	acting.Wait()
}

func TestArgs(t *testing.T) {
	own := []string{"--port", "0", "--tls-port", "{port}", "--aclfile", "{dir}/a"}
	got, want := redisserver.Args("0.0.0.0", 7000, "/data", own), slices.Clone(own)
	want[3], want[5] = "7000", "/data/a"
	if len(got) < len(want) || !slices.Equal(got[len(got)-len(want):], want) {
		t.Errorf("got %q, want %q at the end", got, want)
	}
}

func TestVersion(t *testing.T) {
	t.Setenv(acting, "server")
	if got, err := redisserver.Version(os.Args[0]); err != nil || got != "Redis server v=7.0.15" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestCommandStats(t *testing.T) {
	s := launch(t, redisserver.Config{})
	c, err := redis.Dial("tcp", s.Addr())
	cases.NoError(t, err)
	defer func() { _ = c.Close() }() // the answer is what counts
	got, err := redisserver.CommandStats(c)
	if want := map[string]int{"set": 7, "config|get": 2}; err != nil || !maps.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

func TestWithoutAServerItSaysWhatToInstall(t *testing.T) {
	t.Setenv("REDLOCK_REDIS_SERVER", "redis-server-that-is-not-there")
	_, err := redisserver.Launch(t.Context(), redisserver.Config{})
	if err == nil || !strings.Contains(err.Error(), "install") {
		t.Errorf("got %v, want what to install", err)
	}
	_, err = redisserver.Launch(t.Context(), redisserver.Config{Binary: filepath.Join(t.TempDir(), "none")})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want that there is no such binary", err)
	}
	if _, err := redisserver.Version("none"); err == nil {
		t.Error("a binary that is not there has a version")
	}
}
