package guard_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
	"github.com/quorumlock/redlock/internal/cases"
)

// The rights of docs/deploy/users.acl are enough, and Nodes has nothing to say about
// them. The whole suite runs with them: REDLOCK_ACL=1 go test ./...
func TestTheDocumentedRightsSuffice(t *testing.T) {
	t.Parallel()
	f := fleet.StartSpec(t, 3, fleet.Shipped(t))
	l := f.Guarded(t, period, redlock.WithTTL(ttl), redlock.WithPrefix("app:"))
	k := cases.Must(l.Lock(t.Context(), "job"))(t)
	cases.NoError(t, k.Extend(t.Context()))
	cases.NoError(t, k.Unlock())
	fleet.Eventually(t, "all nodes vote", func() bool { return fleet.AllVote(t, l) })
	for _, n := range l.Status(t.Context()) {
		if n.Err != nil || len(n.Findings) > 0 || n.Role != "master" {
			t.Errorf("got %+v", n)
		}
	}
}

// As it stands, the file has no password that works: a server with it does not start.
func TestAServerRefusesTheUsersWithoutPasswords(t *testing.T) {
	t.Parallel()
	p, err := masters.NewProcesses()
	if err != nil {
		t.Skip(err)
	}
	for placeholder := range strings.FieldsSeq("#CHANGE-ME-TOO #CHANGE-ME") {
		spec := fleet.Shipped(t)
		spec.Files["users.acl"] = strings.Replace(fleet.UsersFile(t), " "+placeholder+" ", " >"+fleet.AdminPassword+" ", 1)
		n, err := p.Launch(t.Context(), spec)
		if err == nil {
			_ = n.Remove()
		}
		if err == nil || !strings.Contains(err.Error(), "password hash must be") {
			t.Errorf("%s: got %v", placeholder, err)
		}
	}
}

// lacking says for each right what does not work without it: words of tryAll, or codes of findings. "reply" is
// reply-noperm or, up to Redis 7.0 in a script, reply-err.
var lacking = map[string]string{
	"": "", "ping": "", "script|load": "", "script|exists": "",
	"info":    "inspect list lock once read refused",
	"time":    "inspect list lock once read reply",
	"eval":    "list reply",
	"evalsha": "inspect lists lock once read reply",
	"get":     "record reply",
	"mget":    "extend force inspect list once read reply unlock wait",
	"set":     "lock once read reply",
	"del":     "force read reply wait",
	"exists":  "lock once read reply",
	"pttl":    "force inspect list lists once reply wait",
	"pexpire": "extend force reply wait", "pexpireat": "lists read reply",
	"zadd": "lists lock once read reply", "zscore": "inspect lists once reply", "zcard": "inspect once reply",
	"zcount": "lists reply", "zrange": "force lists read reply unlock wait", "zrevrange": "read reply", "zrank": "reply",
	"zrem": "read reply unlock wait", "zremrangebyscore": "force lists read reply",
	"sadd": "reply", "srem": "reply unlock wait",
	"subscribe": "poll reply", "publish": "reply",
	"~": "inspect list lists lock once read record reply", "&": "poll reply",

	"select": "inspect list lock once read reply",
	"scan":   "list", "strlen": "list", "pubsub|channels": "", "config|get": "",
}

// Each right of the documented user, and each that some need besides, is taken away from a user of its own. What then
// fails is said, with the right's name, and the node has noted that just this was refused: there is no right too many.
func TestWhatEachRightIsFor(t *testing.T) {
	t.Parallel()
	n := fleet.StartSpec(t, 1, fleet.Shipped(t)).Nodes[0]
	_, shipped, _ := strings.Cut(strings.TrimSpace(fleet.UsersFile(t)), " &app:redlock:wake:* ")
	rights := strings.Fields("+script|load " + strings.Replace(shipped, " +script|load", "", 1) + " " + fleet.Optional)
	var all sync.WaitGroup
	for i, right := range append(rights, "~", "&", "") {
		user := fmt.Sprintf("user%d", i)
		args := redis.Args{"SETUSER", user, "on", ">x"}
		for _, r := range append(rights, "~"+user+":*", "&"+user+":redlock:wake:*") {
			if r != right && r[:1] != right {
				args = args.Add(r)
			}
		}
		cases.Must(n.Do("ACL", args...))(t)
		all.Go(func() {
			right := strings.TrimPrefix(right, "+")
			fails, said := tryAll(t, n, user)
			// A waiter that takes the nodes' time for earlier than it is, as where an answer was late, has the smaller token,
			// and a release that hands the lock to it looks up the larger one. The lock then stays, and List inspects it.
			outbid := right == "zscore" && strings.Replace(fails, " list ", " ", 1) == lacking[right]+" unlock wait"
			if want, known := lacking[right]; fails != want && !outbid || !known {
				t.Errorf("without %q: got %q, want %q; %s", right, fails, want, said)
			}
			if len(right) > 1 && !strings.Contains(refusals(t, n, user), " "+right+" ") {
				t.Errorf("%s: the node has refused only%s", right, refusals(t, n, user))
			}
			if words := strings.NewReplacer("'", " ", "(", " ", ")", " ").Replace(said); fails != "" &&
				!strings.Contains(words, " "+right+" ") {
				t.Errorf("%s is not named: %s", right, said)
			}
		})
		if i == 0 {
			all.Wait() // then the node has the scripts: nobody else loads them
		}
	}
	all.Wait()
}

// refusals lists what the node has refused to the user: in small letters, with blanks around each.
func refusals(t *testing.T, n *masters.Node, user string) string {
	t.Helper()
	entries := cases.Must(redis.Values(n.Do("ACL", "LOG", 10_000)))(t)
	text := " "
	for _, e := range entries {
		fields := fmt.Sprintf("%s", e) // names and values in turn
		if _, object, _ := strings.Cut(fields, " object "); strings.Contains(object, " username "+user+" ") {
			text += strings.ToLower(strings.Fields(object)[0]) + " "
		}
	}
	return text
}

// tryAll uses all features as the user, with a prefix of its own and database 1. It returns what fails, in words, and
// all that was said.
func tryAll(t *testing.T, n *masters.Node, user string) (fails, said string) {
	t.Helper()
	var log bytes.Buffer
	found := map[string]bool{}
	failed := func(what string, err error) bool {
		if err != nil {
			found[what] = true
			said += fmt.Sprintf("\n%s: %v", what, err)
		}
		return err != nil
	}
	logger := slog.New(slog.NewTextHandler(&log, nil))
	locker := func() *redlock.Locker {
		return fleet.Locker(t, []string{fmt.Sprintf("redis://%s:x@%s/1", user, n.Addr())}, redlock.WithPrefix(user+":"),
			redlock.WithLogger(logger), redlock.WithDoneTTL(time.Minute),
			redlock.WithTTL(30*time.Second))
	}
	a, b, ctx := locker(), locker(), t.Context()
	if k, err := a.TryLock(ctx, "job"); !failed("lock", err) {
		waited := make(chan error, 1)
		go func() {
			k, err := b.Lock(ctx, "job", redlock.WithMaxWait(15*time.Second))
			if err == nil {
				err = k.Unlock()
			}
			waited <- err
		}()
		fleet.Eventually(t, "the other one waits, or cannot", func() bool {
			c := cases.Must(n.Dial(ctx, 20*time.Second))(t)
			defer func() { _ = c.Close() }()
			cases.Must(c.Do("SELECT", 1))(t)
			queued := cases.Must(redis.Bool(c.Do("EXISTS", user+":redlock:wait:"+user+":job")))(t)
			return queued || len(waited) > 0
		})
		failed("extend", k.Extend(ctx))
		failed("unlock", k.Unlock())
		failed("wait", <-waited)
	}
	if k, err := a.TryRLock(ctx, "book"); !failed("read", err) {
		failed("read", k.Unlock())
	}
	within, cancel := context.WithTimeout(ctx, 15*time.Second)
	failed("once", a.Once(within, "once", func(context.Context, *redlock.Lock) error { return nil }))
	cancel()
	_, err := a.Inspect(ctx, "job")
	failed("inspect", err)
	for _, err := range a.List(ctx, "") {
		failed("list", err)
	}
	if k, err := b.TryLock(ctx, "stuck"); err == nil {
		failed("force", a.ForceUnlock(ctx, "stuck", k.Owner()))
	}
	for _, f := range a.Status(ctx)[0].Findings {
		code, _, _ := strings.Cut(string(f.Code), "-") // lists-refused, too
		failed(code, errors.New(f.Text))
	}
	_, _ = a.Close(), b.Close()
	if strings.Contains(log.String(), "no permission to subscribe") {
		found["poll"] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(found)), " "), said + log.String()
}

// What concerns another prefix, or the nodes themselves.
const foreign = "GET other:job, MGET app:job other:job, EXISTS other:job, DEL other:job, SET other:redlock:floor 9, " +
	"ZRANGE other:redlock:lists 0 -1, GET redlock:floor, PUBLISH other:redlock:wake:1 x, PUBLISH app:redlock:wake x, " +
	"PUBLISH redlock:wake:1 x, SUBSCRIBE other:redlock:wake:1, PSUBSCRIBE *, PUBSUB CHANNELS, SCAN 0, KEYS *, SELECT 1, " +
	"RANDOMKEY, DBSIZE, FLUSHALL, MONITOR, CLIENT LIST, CLIENT KILL TYPE normal, CLIENT PAUSE 1000, " +
	"CLIENT TRACKING ON BCAST, CONFIG GET requirepass, CONFIG SET maxmemory 1, ACL LIST, SCRIPT FLUSH, SCRIPT KILL, " +
	"FUNCTION LIST, SLOWLOG GET, MEMORY DOCTOR, REPLICAOF 127.0.0.1 1, SAVE, SHUTDOWN"

var forbidden = regexp.MustCompile(`[Nn]o permissions to|user executing the script can't|not allowed from script`)

// To the user of one prefix, a node refuses all that, in scripts as well. What it can do is to keep a node busy, until
// an administrator ends that, and to fill its memory. The others go on.
func TestTheUserOfOnePrefixHasNoPowerOverAnother(t *testing.T) {
	t.Parallel()
	spec := fleet.Shipped(t)
	spec.Args = append(spec.Args, "--busy-reply-threshold", "100")
	f := fleet.StartSpec(t, 3, spec)
	l := f.Locker(t, redlock.WithPrefix("app:"))
	n := f.Nodes[0]
	dial := func() redis.Conn {
		c := cases.Must(redis.DialURLContext(t.Context(), n.URL()))(t)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	app := dial()
	for line := range strings.SplitSeq(foreign, ", ") {
		words := redis.Args{}.AddFlat(strings.Fields(line))
		_, plain := app.Do(words[0].(string), words[1:]...)
		_, inside := app.Do("EVAL", append(redis.Args{"return redis.call(unpack(ARGV))", 0}, words...)...)
		for _, err := range []error{plain, inside} {
			if !forbidden.MatchString(fmt.Sprint(err)) {
				t.Errorf("%s: got %v", line, err)
			}
		}
	}
	admin := cases.Must(n.Dial(t.Context(), 20*time.Second))(t)
	defer func() { _ = admin.Close() }()
	for _, c := range []struct{ script, end, says string }{
		{"while true do end", "SCRIPT KILL", "<nil>"},
		{"redis.call('SET', 'app:x', '', 'PX', 1) while true do end", "SCRIPT KILL", "UNKILLABLE"},
		{"", "SHUTDOWN NOSAVE", "EOF"},
	} {
		cases.NoError(t, app.Send("EVAL", c.script, 0))
		cases.NoError(t, app.Flush())
		_, err := dial().Do("SCRIPT", "KILL")
		if err == nil || !strings.Contains(err.Error(), "NOPERM") {
			t.Errorf("the user itself: got %v", err)
		}
		end := redis.Args{}.AddFlat(strings.Fields(c.end))
		fleet.Eventually(t, c.end, func() bool {
			_, err := admin.Do(end[0].(string), end[1:]...)
			return strings.HasPrefix(fmt.Sprint(err), c.says)
		})
		cases.NoError(t, fleet.Lock(t, l, "job").Unlock())
	}
	cases.NoError(t, n.Restart())
}
