//go:build unix

package adapters

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/golang-migrate/migrate/v4/database/stub"
	"github.com/hibiken/asynq"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"github.com/pressly/goose/v3/lock/locktesting"
	"github.com/robfig/cron/v3"
	_ "modernc.org/sqlite"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/election"
	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/redisserver"
	"github.com/quorumlock/redlock/redlocktest"
)

var (
	_ certmagic.TryLocker        = (*CertMagic)(nil)
	_ certmagic.LockLeaseRenewer = (*CertMagic)(nil)
)

// works are what is done by each adapter: it calls held when it has the lock, and unlocks after that.
var works = map[string]func(ctx context.Context, l *redlock.Locker, held func()) error{
	"tusd": func(ctx context.Context, l *redlock.Locker, held func()) error {
		stop := make(chan bool, 1)
		lock, err := Tusd{l}.NewLock("job")
		err = between(errors.Join(err, lock.Lock(ctx, func() { stop <- true })), held, lock.Unlock)
		if errors.Is(err, redlock.ErrLost) && len(stop) == 0 {
			return errors.New("the request was not asked to stop")
		}
		return err
	},
	"goose": func(ctx context.Context, l *redlock.Locker, held func()) error {
		g := NewGoose(l, "job")
		return between(g.Lock(ctx, nil), held, func() error { return g.Unlock(ctx, nil) })
	},
	"certmagic": func(ctx context.Context, l *redlock.Locker, held func()) error {
		c := &CertMagic{Locker: l}
		return between(c.Lock(ctx, "job"), held, func() error { return c.Unlock(ctx, "job") })
	},
	"migrate": func(_ context.Context, l *redlock.Locker, held func()) error {
		patient := []redlock.LockOption{redlock.WithMaxWait(time.Minute)}
		m := &Migrate{Driver: &stub.Stub{}, Locker: l, Name: "job", Options: patient}
		return between(m.Lock(), held, func() error {
			defer m.Unlock()
			if m.SetVersion(1, false) != nil {
				return errors.New("the migration cannot end")
			}
			return m.SetVersion(2, true) // the next one begins
		})
	},
	"asynq": func(ctx context.Context, l *redlock.Locker, held func()) error {
		ctx, cancel := context.WithCancel(ctx)
		enqueued := func(_ *asynq.TaskInfo, err error) {
			if err == nil && ctx.Err() == nil {
				held()
				cancel()
			}
		}
		return RunAsynq(ctx, election.New(l, "asynq:job"), "me", func() (*asynq.Scheduler, error) {
			s := asynq.NewScheduler(asynq.RedisClientOpt{Addr: os.Getenv("QUEUE")},
				&asynq.SchedulerOpts{LogLevel: asynq.FatalLevel, PostEnqueueFunc: enqueued})
			_, err := s.Register("@every 1s", asynq.NewTask("report", nil))
			return s, err
		})
	},
	"cron": func(ctx context.Context, l *redlock.Locker, held func()) error {
		logged := new(strings.Builder)
		wrapper := Cron(ctx, l, cron.PrintfLogger(log.New(logged, "", 0)), "job", redlock.WithDoneTTL(time.Minute))
		cron.NewChain(wrapper).Then(cron.FuncJob(held)).Run()
		if logged.Len() > 0 {
			return errors.New(logged.String())
		}
		return nil
	},
	"endwith": func(ctx context.Context, l *redlock.Locker, held func()) error {
		lock, err := l.Lock(ctx, "endwith:job")
		if err == nil {
			EndWith(lock, ttl/10)
		}
		return between(err, held, lock.Unlock)
	},
}

func between(err error, held func(), unlock func() error) error {
	if err != nil {
		return err
	}
	held()
	return unlock()
}

const ttl = 4 * time.Second // a hold outlives a stall of the machine for more than half of it

// The test binary is also the process that works by an adapter, and unlocks when a line arrives on its standard input.
func TestMain(m *testing.M) {
	work, child := works[os.Getenv("ADAPTER")]
	if !child {
		os.Exit(m.Run())
	}
	locker, err := redlock.New(redlock.ParseNodes(os.Getenv("REDLOCK_NODES")),
		redlock.WithTTL(ttl), redlock.WithMaxTTL(ttl), redlock.WithNodeTimeout(5*time.Second))
	if err == nil {
		err = work(context.Background(), locker, func() {
			fmt.Println("held")
			if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
				os.Exit(3) // the test is over
			}
		})
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
	locker.Close()
}

// start starts a process that works by an adapter, and returns what it hears and says.
func start(t *testing.T, env ...string) (cmd *exec.Cmd, input io.Writer, says func(want string)) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), env...), t.Output()
	input = cases.Must(cmd.StdinPipe())(t)
	output := bufio.NewReader(cases.Must(cmd.StdoutPipe())(t))
	cases.NoError(t, cmd.Start())
	return cmd, input, func(want string) {
		t.Helper()
		cases.Equals(t, cases.Must(output.ReadString('\n'))(t), want+"\n", "what it says")
	}
}

// A process that holds by an adapter is killed, or its hold ends, and the next one takes over. Then nothing is left.
func TestTakeOver(t *testing.T) {
	var masters []string
	for range 4 { // the last is asynq's
		s := cases.Must(redisserver.Launch(t.Context(), redisserver.Config{}))(t)
		t.Cleanup(func() { cases.NoError(t, s.Remove(context.WithoutCancel(t.Context()))) })
		masters = append(masters, s.Addr())
	}
	nodes := strings.Join(masters[:3], ",")
	inspector := cases.Must(redlock.NewInspector(redlock.ParseNodes(nodes), redlock.WithMaxTTL(ttl),
		redlock.WithNodeTimeout(5*time.Second)))(t)
	t.Cleanup(func() { inspector.Close() })
	for name := range works {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := []string{"ADAPTER=" + name, "QUEUE=" + masters[3], "REDLOCK_NODES=" + nodes}
			first, _, says := start(t, env...)
			says("held")
			second, input, saysToo := start(t, env...)
			var seen redlock.Inspection
			cases.Eventually(t, "the second waits", func() bool {
				seen = cases.Must(inspector.Inspect(t.Context(), name+":job"))(t)
				return seen.Waiting == 1
			})
			if name == "endwith" {
				cases.NoError(t, inspector.ForceUnlock(t.Context(), name+":job", seen.Owner))
			} else {
				cases.NoError(t, first.Process.Kill())
			}
			if err := first.Wait(); err == nil || first.ProcessState.Exited() != (name == "endwith") {
				t.Errorf("the first ended by %v", err)
			}
			saysToo("held")
			cases.Must(io.WriteString(input, "\n"))(t)
			cases.NoError(t, second.Wait())
			cases.Eventually(t, "nothing is left", func() bool {
				seen = cases.Must(inspector.Inspect(t.Context(), name+":job"))(t)
				return !slices.ContainsFunc(seen.Nodes, func(n redlock.NodeInspection) bool {
					return n.Err != nil || n.Owner != "" || n.Waiting > 0
				})
			})
		})
	}
}

// bubble runs f in virtual time. lose ends the hold of a name as an administrator does, until its holder knows.
func bubble(t *testing.T, f func(t *testing.T, l *redlock.Locker, lose func(name string))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		masters := redlocktest.NewInBubble(t, 3)
		l := cases.Must(redlock.New(masters.URLs(), redlock.WithNodeConfig(redlock.NodeConfig{Dial: masters.Dial})))(t)
		defer l.Close()
		f(t, l, func(name string) {
			seen := cases.Must(l.Inspect(context.Background(), name))(t)
			cases.NoError(t, l.ForceUnlock(context.Background(), name, seen.Owner))
			time.Sleep(20 * time.Second)
		})
	})
}

// A lost lock is told in the end.
func TestLost(t *testing.T) {
	for _, name := range []string{"tusd", "goose", "certmagic", "migrate", "cron"} {
		bubble(t, func(t *testing.T, l *redlock.Locker, lose func(string)) {
			err := works[name](t.Context(), l, func() { lose(name + ":job") })
			cases.Equals(t, strings.Contains(fmt.Sprint(err), "lost"), true, "%s: %v is a loss", name, err)
		})
	}
}

// Goose's own tests of a Locker.
func TestGoose(t *testing.T) {
	bubble(t, func(t *testing.T, l *redlock.Locker, _ func(string)) {
		locktesting.TestConcurrentLocking(t, nil, func(*testing.T) lock.Locker { return NewGoose(l, "one") }, time.Second)
		db := cases.Must(sql.Open("sqlite", "file:"+t.TempDir()+"/db?_pragma=busy_timeout(60000)"))(t)
		defer db.Close()
		locktesting.TestProviderLocking(t, func(t *testing.T) *goose.Provider {
			return cases.Must(goose.NewProvider(goose.DialectSQLite3, db, nil, goose.WithLocker(NewGoose(l, "db")),
				goose.WithGoMigrations(goose.NewGoMigration(1, nil, nil), goose.NewGoMigration(2, nil, nil))))(t)
		})
	})
}

// A lease that was lost is taken anew, and the one that lasts is freed last.
func TestCertMagic(t *testing.T) {
	bubble(t, func(t *testing.T, l *redlock.Locker, lose func(string)) {
		c := &CertMagic{Locker: l}
		free := func(want bool) {
			t.Helper()
			cases.Equals(t, cases.Must(c.TryLock(t.Context(), "a"))(t), want, "free")
		}
		free(true)
		lose("certmagic:a")
		cases.NoError(t, c.RenewLockLease(t.Context(), "a", time.Minute))
		free(false)
		lose("certmagic:a")
		free(true)
		cases.Equals(t, errors.Is(c.Unlock(t.Context(), "a"), redlock.ErrLost), true, "the first caller's was lost")
		free(false)
		cases.NoError(t, c.Unlock(t.Context(), "a"))
		free(true)
		cases.NoError(t, c.Unlock(t.Context(), "a"))
	})
}

// The request that has an upload is asked to stop when another one wants it.
func TestTusdWanted(t *testing.T) {
	bubble(t, func(t *testing.T, l *redlock.Locker, _ func(string)) {
		first, second := cases.Must(Tusd{l}.NewLock("7"))(t), cases.Must(Tusd{l}.NewLock("7"))(t)
		asked := make(chan struct{})
		cases.NoError(t, first.Lock(t.Context(), func() { close(asked) }))
		go func() {
			<-asked
			_ = first.Unlock()
		}()
		cases.NoError(t, second.Lock(t.Context(), func() {}))
		cases.NoError(t, second.Unlock())
	})
}
