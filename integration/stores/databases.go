// Package stores starts the databases that package fence is tried with.
package stores

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // drivers
	_ "github.com/lib/pq"
	_ "modernc.org/sqlite"

	"github.com/quorumlock/redlock/internal/cases"
)

// wanted says that a database must be there: CI names them all.
func wanted(name string) bool {
	return slices.Contains(strings.Split(os.Getenv("REDLOCK_DATABASES"), ","), name)
}

// missing skips the test, or fails it if the database is wanted.
func missing(t testing.TB, name, advice string) {
	t.Helper()
	if wanted(name) {
		t.Fatalf("%s is missing: %s", name, advice)
	}
	t.Skipf("NOT RUN: %s is missing: %s", name, advice)
}

// SQLite returns a new database.
func SQLite(t testing.TB) *sql.DB {
	t.Helper()
	const patient = "?_pragma=busy_timeout(30000)&_pragma=synchronous(off)"
	return open(t, "sqlite", "file:"+filepath.Join(t.TempDir(), "db")+patient)
}

// short returns a directory for a server of another user, with a path that is short enough for a socket.
func short(t testing.TB) string {
	t.Helper()
	dir := cases.Must(os.MkdirTemp("", "stores"))(t) //nolint:usetesting // see above
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// Postgres starts a server, or skips the test where there is none.
func Postgres(t testing.TB) *sql.DB {
	t.Helper()
	db, _ := PostgresAt(t)
	return db
}

// PostgresAt is Postgres with the directory of the socket.
func PostgresAt(t testing.TB) (db *sql.DB, dir string) {
	t.Helper()
	const advice = "install postgresql (Debian: apt-get install postgresql)"
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // where Debian has it, outside of PATH
	if path, err := exec.LookPath("initdb"); err == nil {
		found = append(found, path)
	}
	if len(found) == 0 {
		missing(t, "postgres", advice)
	}
	programs := filepath.Dir(found[len(found)-1])
	data, who := t.TempDir(), (*syscall.Credential)(nil)
	if os.Getuid() == 0 { // which it refuses
		owner, err := user.Lookup("postgres")
		if err != nil {
			missing(t, "postgres", advice)
		}
		uid, _ := strconv.Atoi(owner.Uid)
		gid, _ := strconv.Atoi(owner.Gid)
		who = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		data = short(t)
		if err := errors.Join(os.Chown(data, uid, gid), os.Chmod(data, 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	initdb := exec.Command(filepath.Join(programs, "initdb"), "-D", data, "-U", "redlock", "-A", "trust", "-N")
	initdb.Dir, initdb.SysProcAttr = data, &syscall.SysProcAttr{Credential: who}
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	serve := exec.Command(filepath.Join(programs, "postgres"), "-D", data, "-k", data, "-c", "listen_addresses=",
		"-c", "fsync=off", "-c", "synchronous_commit=off")
	serve.Dir = data
	run(t, serve, who)
	return open(t, "postgres", "host="+data+" user=redlock dbname=postgres sslmode=disable"), data
}

// MariaDB starts a server, or skips the test where there is none.
func MariaDB(t testing.TB) *sql.DB {
	t.Helper()
	server, err := exec.LookPath("mariadbd")
	if err != nil {
		missing(t, "mariadb", "install it (Debian: apt-get install mariadb-server-core)")
	}
	data := short(t)
	run(t, exec.Command(server, "--no-defaults", "--datadir="+data, "--user="+cases.Must(user.Current())(t).Username,
		"--skip-networking", "--skip-grant-tables", "--socket="+data+"/socket", "--pid-file="+data+"/pid",
		"--innodb-flush-log-at-trx-commit=0"), nil)
	db := open(t, "mysql", "root@unix("+data+"/socket)/")
	if _, err := db.Exec("CREATE DATABASE stores"); err != nil {
		t.Fatal(err)
	}
	return open(t, "mysql", "root@unix("+data+"/socket)/stores")
}

// run starts a server, which ends with the test.
func run(t testing.TB, server *exec.Cmd, who *syscall.Credential) {
	t.Helper()
	server.SysProcAttr = &syscall.SysProcAttr{Credential: who, Pdeathsig: syscall.SIGKILL}
	var log strings.Builder
	server.Stdout, server.Stderr = &log, &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Signal(syscall.SIGQUIT)
		server.Process.Kill()
		server.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
}

// open connects as soon as the server answers.
func open(t testing.TB, driver, source string) *sql.DB {
	t.Helper()
	db := cases.Must(sql.Open(driver, source))(t)
	t.Cleanup(func() { db.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for db.PingContext(ctx) != nil {
		if ctx.Err() != nil {
			t.Fatal(fmt.Errorf("%s does not answer: %w", driver, db.Ping()))
		}
		time.Sleep(50 * time.Millisecond)
	}
	return db
}
