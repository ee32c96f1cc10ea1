package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The kernel sends Pdeathsig when the thread that started the command ends, not the process. The main goroutine,
// which starts it, therefore stays on the main thread, and that one lives as long as the process.
//
// For the same reason the main thread's children are the command and the orphans that it leaves to us, and nothing
// else: the kernel makes a child that of the thread which started it, and an orphan that of the main thread. What other
// goroutines start by os/exec, on other threads, is theirs to wait for.
func init() { runtime.LockOSThread() }

// endWithUs has the kernel end the command when we are killed and can no longer tell it that the lock is lost.
func endWithUs(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGTERM }

// adopt has the orphans of what we are about to start become our children, not the first process's, so that they can be
// found and ended: also those that have left the process group and the session. It returns whether all that will be
// left to us is the command's. It is not where we have children already, from whoever became us by exec: their orphans
// could not be told from the command's. Where pidfds are refused, what we adopted could not be ended.
func adopt() bool {
	if os.Getpid() != unix.Gettid() {
		return false
	}
	before, err := childrenOf(os.Getpid())
	if err != nil || len(before) > 0 {
		return false
	}
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	defer unix.Close(fd)
	if err != nil || (member{fd: fd}).signal(0) != nil {
		return false
	}
	return os.Getpid() == 1 || unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil
}

// reap waits for the orphans that have ended: as process 1, or because of adopt, we are their parent. It never takes
// what somebody else waits for, whatever the order of events: it asks for one child at a time, never for the command,
// and only for those of the main thread, on which it runs. What os/exec has started on another thread is not on the
// list, and does not exist for this call (WNOTHREAD), even if it has got the number of one that is.
func (p *process) reap() {
	if os.Getpid() != unix.Gettid() {
		return
	}
	// A list that is read while one of its processes goes may lack another: it is read until nobody has gone.
	for again := true; again; {
		again = false
		children, _ := childrenOf(os.Getpid()) // none without /proc
		for _, pid := range children {
			if pid == p.pid {
				continue
			}
			got, err := unix.Wait4(pid, nil, unix.WNOHANG|unix.WNOTHREAD, nil)
			again = again || err == nil && got == pid
		}
	}
}

// orphaned says whether something lives that the command has left to us. The children that we have are enough to see:
// whatever lives below the command has an ancestor among them that lives, since the dead have no children.
func (p *process) orphaned() bool {
	children, err := childrenOf(os.Getpid())
	again, _ := childrenOf(os.Getpid()) // see reap
	for _, pid := range append(children, again...) {
		if p.leftToUs(pid) && !zombie(pid) {
			return true
		}
	}
	return err != nil
}

// leftToUs says whether a child of ours is the command, or an orphan of its. What --password-command leaves behind, if
// it does, counts as one, too: nobody else would end it.
func (p *process) leftToUs(pid int) bool {
	if pid == p.pid || !p.adopts {
		return pid == p.pid
	}
	group, err := unix.Getpgid(pid)
	return err == nil && (p.shares || group != unix.Getpgrp())
}

// alone says whether our process group has no other member, as far as can be seen.
func alone() bool {
	paths, _ := filepath.Glob("/proc/[0-9]*")
	return unix.Getpgrp() == os.Getpid() && !slices.ContainsFunc(paths, func(path string) bool {
		pid, _ := strconv.Atoi(filepath.Base(path))
		stat := statOf(pid)
		return pid != os.Getpid() && len(stat) > begun && stat[0] != "Z" && stat[inGroup] == strconv.Itoa(os.Getpid())
	})
}

// member is a process that the command has started. Its pidfd means this process, even when its number has become
// another's.
type member struct{ pid, fd int }

// signal sends a signal; the error says why it was refused. A process that has ended needs no signal.
func (m member) signal(sig syscall.Signal) error {
	if err := unix.PidfdSendSignal(m.fd, sig, nil, 0); !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}

// exists says whether a process has not been waited for: until then its number is its own.
func (m member) exists() bool {
	return !errors.Is(unix.PidfdSendSignal(m.fd, 0, nil, 0), unix.ESRCH)
}

// noteStrays keeps what has left the process group where that cannot all be ended, so that it can be named.
func (p *process) noteStrays() {
	if p.adopts {
		return
	}
	queue := []int{p.pid}
	for i := 0; i < len(queue); i++ {
		if stat := statOf(queue[i]); i > 0 && len(stat) > begun && stat[inGroup] != strconv.Itoa(p.pid) {
			p.strays[queue[i]] = stat[begun]
		}
		children, _ := childrenOf(queue[i])
		queue = append(queue, children...)
	}
}

// visit calls do for every process that descends from the command and lives, parents first.
//
// No stranger is visited. A number is only a hint; the pidfd is opened first, and then the parent's list is read again:
// a process that has the number now, and is on that list, is the one of the pidfd if that exists still. The same holds
// for the parent.
func (p *process) visit(do func(member)) {
	us := os.Getpid()
	var queue []member
	defer func() {
		for _, m := range queue {
			unix.Close(m.fd)
		}
	}()
	look := func(parent int, exists func() bool, ours func(pid int) bool) {
		children, err := childrenOf(parent)
		if err != nil {
			return
		}
		opened := make(map[int]int)
		for _, pid := range children {
			if fd, err := unix.PidfdOpen(pid, 0); err == nil && ours(pid) {
				opened[pid] = fd
			} else if err == nil {
				unix.Close(fd)
			}
		}
		children, _ = childrenOf(parent)
		for pid, fd := range opened {
			m := member{pid, fd}
			if !slices.Contains(children, pid) || !m.exists() || !exists() {
				unix.Close(fd)
				continue
			}
			queue = append(queue, m)
		}
	}
	look(us, func() bool { return true }, p.leftToUs)
	for i := 0; i < len(queue); i++ {
		m := queue[i]
		if zombie(m.pid) {
			continue
		}
		do(m)
		look(m.pid, m.exists, func(int) bool { return true })
	}
}

// left is what of the command lives.
func (p *process) left() (all []remnant) {
	p.reap()
	p.visit(func(m member) { all = append(all, remnantOf(m.pid, errors.Is(m.signal(0), unix.EPERM))) })
	if len(all) > 0 || p.adopts {
		return all
	}
	if errors.Is(p.send(0), unix.EPERM) {
		all = append(all, remnant{pid: p.pid, refuses: true})
	}
	for pid, since := range p.strays {
		if stat := statOf(pid); len(stat) > begun && stat[begun] == since && stat[0] != "Z" {
			all = append(all, remnantOf(pid, false))
		}
	}
	return all
}

func remnantOf(pid int, refuses bool) remnant {
	r := remnant{pid: pid, refuses: refuses}
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)) // neither can be read if others are hidden
	r.name = strings.TrimSuffix(string(name), "\n")
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if _, ids, ok := bytes.Cut(status, []byte("\nUid:\t")); ok {
		if fields := strings.Fields(string(ids)); len(fields) > 1 {
			r.user = userName(fields[1]) // the effective one
		}
	}
	return r
}

// userName looks into the file alone. What os/user asks, where that is linked, may be a directory that does not answer.
func userName(id string) string {
	text, _ := os.ReadFile("/etc/passwd")
	for line := range strings.Lines(string(text)) {
		if fields := strings.SplitN(line, ":", 4); len(fields) == 4 && fields[2] == id {
			return fields[0]
		}
	}
	return id
}

// zombie says whether a process has ended and has not been waited for; no, if that cannot be seen.
func zombie(pid int) bool {
	stat := statOf(pid)
	return len(stat) > 0 && stat[0] == "Z"
}

// statOf returns what proc(5) says of a process, from its state on; nothing, if that cannot be seen.
func statOf(pid int) []string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	i := bytes.LastIndexByte(text, ')') // behind the program's name, which may have anything in it
	return strings.Fields(string(text[i+1:]))
}

const inGroup, begun = 2, 19 // of these: the process group, and when it was started

// childrenOf lists the children of a process: of all its threads, but of our own only those of the main thread.
func childrenOf(pid int) ([]int, error) {
	paths := []string{fmt.Sprintf("/proc/self/task/%d/children", pid)}
	if pid != os.Getpid() {
		paths, _ = filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	}
	var pids []int
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			if pid == os.Getpid() {
				return nil, err
			}
			continue // a thread that has ended
		}
		for field := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids, nil
}
