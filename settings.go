package redlock

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/lua"
	"github.com/quorumlock/redlock/internal/redisconn"
	"github.com/quorumlock/redlock/internal/resp"
)

// Clients that lock the same names must agree on some settings, and nobody compares their configurations. So each tells
// every node its settings, and learns from the node which others are in use. It does so when it connects and then every
// 20 to 35 s, but tells nothing before it asks for a lock: a client that only looks, like redlock doctor, is no danger
// to anybody, and must not alarm those that work.

// settings are what other clients rely on.
type settings struct {
	guard     time.Duration // 0: off
	retention time.Duration // 0: without tokens, so it drops none
	ttl       time.Duration // the longest that the client has used; 0: none yet
}

func (o *options) settings() settings {
	s := settings{guard: o.guard, ttl: time.Duration(o.longestTTL.Load())}
	if o.fencing {
		s.retention = o.retention
	}
	return s
}

const settingsFormat = "guard=%d retention=%d ttl=%d" // in ms

// String returns the settings as nodes keep them.
func (s settings) String() string {
	return fmt.Sprintf(settingsFormat, s.guard.Milliseconds(), s.retention.Milliseconds(), s.ttl.Milliseconds())
}

// parseSettings reads what String has written. What it cannot read may come from another version.
func parseSettings(text string) (s settings, ok bool) {
	var guard, retention, ttl int64
	n, err := fmt.Sscanf(text, settingsFormat, &guard, &retention, &ttl)
	const most = int64(1<<63-1) / int64(time.Millisecond)
	if err != nil || n != 3 || min(guard, retention, ttl) < 0 || max(guard, retention, ttl) > most {
		return settings{}, false
	}
	ms := time.Millisecond
	return settings{time.Duration(guard) * ms, time.Duration(retention) * ms, time.Duration(ttl) * ms}, true
}

// extra is a command that is sent behind others, so that it costs no round trip of its own.
type extra struct {
	command []any
	heard   func(reply any)
}

// behind returns a Do that sends the extras behind the first commands.
func behind(do redisconn.Do, extras ...extra) redisconn.Do {
	return func(commands ...[]any) ([]any, error) {
		own, sent := len(commands), extras
		extras = nil
		for _, x := range sent {
			commands = append(slices.Clip(commands), x.command)
		}
		replies, err := do(commands...)
		if err != nil || len(replies) != own+len(sent) {
			return replies, err
		}
		for i, x := range sent {
			x.heard(replies[own+i])
		}
		return replies[:own], nil
	}
}

// agreement exchanges settings with one node.
type agreement struct {
	opts  *options
	judge func(command string, err error) // see node.heard

	mu     sync.Mutex // guards the fields below
	known  []string   // the settings in use, also this client's, as the node said last
	source bool       // the node lacks the script
}

var noteSettings = lua.Load("settings")

// exchange returns the command that tells the settings and asks for those of others, and the reader of the reply.
func (a *agreement) exchange() extra {
	a.mu.Lock()
	defer a.mu.Unlock()
	return extra{a.command(a.source), a.heard}
}

// command tells the settings and asks for those of others.
func (a *agreement) command(source bool) []any {
	how, script, told := "EVALSHA", noteSettings.SHA, ""
	if source {
		how, script = "EVAL", noteSettings.Source
	}
	if s := a.opts.settings(); s.ttl > 0 {
		told = s.String()
	}
	return []any{how, script, 1, a.opts.prefix + ownNames + "settings", told}
}

// noteTTL notes the TTL of a call. It reports whether that is longer than all before, so that the nodes should be told.
func (o *options) noteTTL() bool {
	for ttl := int64(o.ttl); ; {
		longest := o.longestTTL.Load()
		if ttl <= longest {
			return false
		}
		if o.longestTTL.CompareAndSwap(longest, ttl) {
			return true
		}
	}
}

// heard notes the reply to the settings. A node that refuses them, for lack of rights or memory, tells nothing.
func (a *agreement) heard(reply any) {
	refusal, refused := reply.(redis.Error)
	list, err := redis.Strings(reply, nil)
	if err != nil && !refused {
		err = fmt.Errorf("script settings: %w", resp.Unexpected(reply))
	}
	a.judge("script settings", err)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.source = refused && resp.Code(refusal) == "NOSCRIPT"
	if !a.source {
		a.known = list
	}
}

// disagreement describes how the settings of other clients differ from this one's; text is "" if they do not.
func (a *agreement) disagreement() (unsafe bool, text, remedy string) {
	a.mu.Lock()
	known := a.known
	a.mu.Unlock()
	var others []settings
	for _, member := range known {
		if s, ok := parseSettings(member); ok {
			others = append(others, s)
		}
	}
	return a.opts.settings().compare(others)
}

// compare describes how the settings of others differ from s, which is how this client is set. unsafe: two can hold one
// lock.
//
// They can if the TTL of one client is longer than the guard of another: a node forgets the lock, and the other counts
// its vote again before the lock has ended. This client need not be one of the two. As long as no TTL in use is so
// long, a difference is only a trap for the first one that is. A retention cannot lead to two holders: that of the
// client with the shortest one drops tokens for all, and the floor keeps them growing.
func (s settings) compare(others []settings) (unsafe bool, text, remedy string) {
	var guards, retentions []time.Duration
	longest, shortest := s.ttl, s.guard // TTL and guard, of the clients that lock
	if s.ttl == 0 && len(others) > 0 {
		shortest = others[0].guard
	}
	for _, other := range others {
		longest, shortest = max(longest, other.ttl), min(shortest, other.guard)
		if other.guard != s.guard {
			guards = append(guards, other.guard)
		}
		if other.retention != s.retention && min(other.retention, s.retention) > 0 {
			retentions = append(retentions, other.retention)
		}
	}
	var parts, options []string
	if guards != nil {
		parts = append(parts, fmt.Sprintf("other clients use %s, this one %s",
			listed("a restart guard of ", "no restart guard", guards), listed("", "none", []time.Duration{s.guard})))
		options = append(options, "WithRestartGuard")
	}
	if retentions != nil {
		parts = append(parts, fmt.Sprintf("other clients keep tokens for %s, this one for %s",
			listed("", "", retentions), listed("", "", []time.Duration{s.retention})))
		options = append(options, "WithFenceRetention")
	}
	if parts == nil {
		return false, "", ""
	}
	text = strings.Join(parts, "; ")
	if unsafe = guards != nil && longest > shortest; unsafe {
		text += fmt.Sprintf(": a lock with the TTL of %s that is in use can be granted twice after nodes restart",
			inSeconds(longest))
	}
	remedy = "give all clients the same " + strings.Join(options, " and ") + ", long enough for the longest TTL"
	return unsafe, text, remedy
}

// listed lists durations, the shortest first, each once, after the words of. Zero is called none.
func listed(of, none string, list []time.Duration) string {
	slices.Sort(list)
	var words []string
	for _, d := range slices.Compact(list) {
		if d == 0 {
			words = append(words, none)
			continue
		}
		words = append(words, of+inSeconds(d))
		of = ""
	}
	return strings.Join(words, " and ")
}

// inSeconds does not round, unlike guard.Seconds: two settings that differ must not look the same.
func inSeconds(d time.Duration) string { return fmt.Sprintf("%g s", d.Seconds()) }
