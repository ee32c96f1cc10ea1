package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/redlocktest"
)

func init() {
	roles["reaper"] = reapBesideOthers
	roles["root"] = becomeRoot
	roles["no pidfds"] = withoutPidfds
}

// As the parent of orphans, redlock waits for them, while it holds and when it is process 1: nobody else would.
func TestRunReapsOrphans(t *testing.T) {
	t.Parallel()
	c := redlocktest.New(t, 5)
	s := begin(t, c, "run", "name", "--",
		"sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do (sleep 0.1 &); done; echo ready; read line; exit 3")
	s.expect("ready")
	pid := s.cmd.Process.Pid
	cases.Eventually(t, "no child but the command", func() bool {
		text := cases.Must(os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)))(t)
		return len(strings.Fields(string(text))) == 1
	})
	s.stdin.Close()
	s.end(3, "", "")
}

// Nothing that os/exec has started elsewhere loses its exit code to reap, nor does the command.
func TestReapTakesNobodyElses(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleKey+"=reaper")
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "all reaped\n" {
		t.Errorf("got %v, %q", err, out)
	}
}

// reapBesideOthers reaps without pause, as the main goroutine, while others start programs that leave orphans.
func reapBesideOthers() int {
	p, err := start(exec.Command("sh", "-c", "for i in 1 2 3 4 5; do (sleep 0.01 &); done; read line; exit 7"))
	if err != nil || !p.adopts {
		fmt.Println("start:", err, p.adopts)
		return 1
	}
	var others sync.WaitGroup
	for range 4 {
		others.Go(func() {
			for range 50 {
				err := exec.Command("setsid", "sh", "-c", "(sleep 0.01 &); exit 5").Run()
				if e := new(exec.ExitError); !errors.As(err, &e) || e.ExitCode() != 5 {
					fmt.Println("a program of others:", err)
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		others.Wait()
		close(ended)
	}()
	for done := false; !done; {
		select {
		case <-ended:
			done = true
		case c := <-p.changes:
			if c.code != 7 { // it ends at once: nobody writes to it
				fmt.Printf("the command: %+v\n", c)
			}
		default:
			p.reap()
		}
	}
	for p.orphaned() {
		p.reap()
	}
	fmt.Println("all reaped")
	return 0
}

// What has left the command's process group is ended with it when the hold is lost.
func TestLostEndsWhatHasLeftTheGroup(t *testing.T) {
	const (
		obeys    = `trap "echo TERM; exit" TERM; echo ready; while :; do sleep 0.02; done`
		stubborn = `trap "" TERM; echo ready; while :; do sleep 0.02; done`
		bare     = `trap : TERM; echo ready; while :; do sleep 0.02; done`
		forks    = `trap "" TERM; echo ready; f() { sleep 0.01; f & exit; }; f`
	)
	lostUnder(t, "run", map[string]lostCommand{
		"a session of its own":     {"setsid sh -c '" + obeys + "' & wait", "", "TERM"},
		"a daemon":                 {"(setsid sh -c '" + obeys + "' &) ; read line", "", "TERM"},
		"a stubborn daemon":        {"(setsid sh -c '" + stubborn + "' &) ; read line", notEnded, ""},
		"one that forks":           {"(setsid sh -c '" + forks + "' &) ; read line", notEnded, ""},
		"a command of a daemon":    {"(setsid sh -c 'setsid sh -c \"" + bare + "\"; :' &) ; read line", notEnded, ""},
		"of a command that stays":  {"trap : TERM; setsid sh -c '" + obeys + "' & sleep 999; sleep 999", notEnded, "TERM"},
		"of a shell with job ctrl": {"set -m; sh -c '" + obeys + "' & wait", "", "TERM"},
	})
}

// withoutPidfds becomes a program to which the kernel refuses a call for them, as old ones and some sandboxes do.
func withoutPidfds() int {
	refused, _ := strconv.Atoi(os.Args[1])
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the system call's number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(refused), Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	if err == nil {
		err = unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
	}
	if err == nil {
		err = syscall.Exec(os.Args[2], os.Args[2:], os.Environ())
	}
	fmt.Println(err)
	return 1
}

// Without pidfds, what has left the group cannot be ended for sure. It is named, and nobody waits for it.
func TestLostWithoutPidfds(t *testing.T) {
	for name, call := range map[string]int{"open": unix.SYS_PIDFD_OPEN, "send": unix.SYS_PIDFD_SEND_SIGNAL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := redlocktest.New(t, 5)
			s := beginCmd(t, c, exec.Command("sh", "-c", roleKey+`="no pidfds" exec "$@"`, "sh", os.Args[0], strconv.Itoa(call),
				binary, "run", "--ttl=2s", "name", "--",
				"sh", "-c", `setsid sh -c 'echo $$; exec sleep 999 >/dev/null 2>&1' & read line`))
			stray := cases.Must(strconv.Atoi(s.next()))(t)
			defer unix.Kill(stray, unix.SIGKILL)
			c.Kill(0, 2, 4)
			cases.Equals(t, s.code(), exitLost, "exit code")
			said := fmt.Sprintf("redlock: still running, without the lock: process %d (sleep) of user ", stray)
			if !strings.Contains(s.stderr.String(), said) {
				t.Errorf("got %q, want %q", s.stderr.String(), said)
			}
		})
	}
}

// systemd's variables name the process that they are for.
func TestRunNamesTheCommandForSystemd(t *testing.T) {
	t.Parallel()
	c := redlocktest.New(t, 5)
	script := filepath.Join(t.TempDir(), "script") // which has no "#!", too
	cases.NoError(t, os.WriteFile(script, []byte("echo $$ $LISTEN_PID $WATCHDOG_PID $1"), 0o755))
	for _, of := range []string{"", "LISTEN_PID=1 WATCHDOG_PID=$$", "LISTEN_PID=$$ WATCHDOG_PID=1"} {
		s := beginCmd(t, c, exec.Command("sh", "-c", of+` exec "$@"`, "sh", binary, "run", "name", script, "a b"))
		got := strings.Fields(s.next())
		want := strings.NewReplacer("LISTEN_PID=", "", "WATCHDOG_PID=", "", "$$", got[0]).Replace(got[0] + " " + of + " a b")
		if strings.Join(got, " ") != strings.Join(strings.Fields(want), " ") {
			t.Errorf("got %q, want %q", got, want)
		}
		s.end(0, "", "")
	}
}

// A daemon that the command leaves behind on purpose is nobody's business when the command ends by itself.
func TestRunLeavesDaemonsAlone(t *testing.T) {
	t.Parallel()
	c := redlocktest.New(t, 5)
	s := begin(t, c, "run", "name", "--", "sh", "-c", `
		(setsid sh -c "trap 'echo TERM' TERM; echo \$\$; while :; do sleep 0.02; done" &)
		read line; exit 3`)
	daemon := cases.Must(strconv.Atoi(s.next()))(t)
	defer unix.Kill(daemon, unix.SIGKILL)
	s.signal(syscall.SIGUSR2) // which ends the command, and goes to its group only
	cases.Eventually(t, "the daemon has another parent", func() bool {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", daemon))
		if err != nil {
			t.Fatalf("the daemon has ended: %v", err)
		}
		_, fields, _ := strings.Cut(string(text), ") ")
		return strings.Fields(fields)[1] != strconv.Itoa(s.cmd.Process.Pid)
	})
	kill(t, daemon, unix.SIGKILL)
	s.expect("(end of output)") // it has heard no TERM
	if got := s.code(); got != 128+exitCode(syscall.SIGUSR2) {
		t.Errorf("got %d, want 140", got)
	}
}

// Who has become redlock by exec may have left it a child. That is no part of the command.
func TestLostSparesWhatWasThereBefore(t *testing.T) {
	t.Parallel()
	c := redlocktest.New(t, 5)
	s := beginCmd(t, c, exec.Command("sh", "-c",
		`setsid sh -c 'trap "echo TERM" TERM; echo $$; while :; do sleep 0.02; done' & exec "$@"`, "exec",
		binary, "run", "--ttl=5s", "name", "--", "sh", "-c", "read line; echo ready; read line"))
	stranger := cases.Must(strconv.Atoi(s.next()))(t)
	defer unix.Kill(stranger, unix.SIGKILL)
	cases.Must(io.WriteString(s.stdin, "\n"))(t)
	s.expect("ready")
	c.Kill(0, 2, 4)
	cases.Eventually(t, "redlock's end", func() bool { return state(s.cmd.Process.Pid) == "" })
	kill(t, stranger, unix.SIGKILL) // which exists
	s.expect("(end of output)")
	cases.Equals(t, s.code(), exitLost, "exit code")
}

// becomeRoot is a command that nobody else may signal; it ends when its standard input does.
func becomeRoot() int {
	if err := unix.Setresuid(0, 0, 0); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("ready")
	for scan := bufio.NewScanner(os.Stdin); scan.Scan(); {
	}
	return 0
}

// A command that has become root cannot be ended by a redlock that is not: that is said, and its end awaited.
func TestLostWithACommandThatBecameRoot(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a program to root")
	}
	dir := t.TempDir()
	var system unix.Statfs_t
	if err := unix.Statfs(dir, &system); err != nil || system.Flags&unix.ST_NOSUID != 0 {
		t.Skipf("%s is mounted nosuid: %v", dir, err)
	}
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		cases.NoError(t, os.Chmod(d, 0o755))
	}
	for from, to := range map[string]string{os.Args[0]: "root", binary: "redlock"} {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, to), text, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	cases.NoError(t, os.Chmod(filepath.Join(dir, "root"), 0o755|os.ModeSetuid))
	for _, json := range []bool{false, true} {
		c := redlocktest.New(t, 5)
		cmd := exec.Command("sh", "-c", roleKey+`=root exec "$@" 2>&1`, "exec", filepath.Join(dir, "redlock"),
			"run", fmt.Sprintf("--json=%t", json), "--ttl=2s", "--term-before=1s", "name", "--", filepath.Join(dir, "root"))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		s := beginCmd(t, c, cmd)
		s.expect("ready")
		children := cases.Must(os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", s.cmd.Process.Pid)))(t)
		who := fmt.Sprintf("process %s (root) of user root: operation not permitted", strings.TrimSpace(string(children)))
		c.Kill(0, 2, 4)
		for _, want := range []string{
			"lock name cannot be renewed: ending the command before the lock is lost",
			"cannot end " + who + "; waiting until that has ended",
			"the command has not ended: killing it",
			"cannot end " + who + "; waiting until that has ended",
			"USR1 cannot be passed on: " + who,
		} {
			if strings.HasPrefix(want, "USR1") {
				s.signal(syscall.SIGUSR1)
			}
			if json {
				s.expect(`{"warning":"` + want + `"}`)
			} else {
				s.expect("redlock: " + want)
			}
		}
		s.stdin.Close()
		cases.Equals(t, s.code(), exitLost, "exit code")
	}
}
