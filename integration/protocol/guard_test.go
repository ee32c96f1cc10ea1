package protocol_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Which nodes may vote, and what time it is there.

// incarnation is what the client knows of a node since the last probe.
type incarnation struct {
	epoch, run, record string
	uptime             time.Duration
	micros             int64 // its clock
	at, since          time.Time
}

// ask is a probe, over a new connection or one in use.
func (n *node) ask(fresh bool) error {
	c, info := n.client, map[string]string{}
	before := c.clock()
	clock, err := redis.Int64s(n.conn.Do("TIME"))
	after := c.clock()
	if err != nil {
		return err
	}
	micros := clock[0]*1e6 + clock[1]
	n.measured(micros, before, after)
	record, err := redis.String(n.conn.Do("GET", "redlock:node"))
	if err != nil && !errors.Is(err, redis.ErrNil) {
		return err
	}
	floor, _ := redis.String(n.conn.Do("GET", "redlock:floor"))
	for _, section := range []string{"replication", "server", "persistence", "memory"} {
		text, err := redis.String(n.conn.Do("INFO", section))
		if err != nil {
			return err
		}
		for line := range strings.Lines(text) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			info[key] = value
		}
	}
	tokens, _ := redis.Bool(n.conn.Do("EXISTS", tokensKey))
	for _, name := range []string{"appendfsync", "no-appendfsync-on-rewrite"} {
		if pair, err := redis.Strings(n.conn.Do("CONFIG", "GET", name)); err == nil && len(pair) == 2 {
			info[name] = pair[1]
		}
	}
	now := time.Now()
	if err := n.unfit(info); err != nil {
		return err
	}
	c.mu.Lock()
	c.floor = max(c.floor, readFloor(floor, !tokens, micros))
	told := ""
	if !c.trimmed.IsZero() {
		told = fmt.Sprintf("guard=%d retention=%d ttl=%d", c.guard.Milliseconds(), c.retention.Milliseconds(),
			c.ttl.Milliseconds())
	}
	c.mu.Unlock()
	if _, err := scripts["settings"].Do(n.conn, 1, "redlock:settings", told); err != nil {
		return err
	}
	return n.reconcile(info, record, micros, now, fresh)
}

// unfit returns why the node must not vote at all.
func (n *node) unfit(info map[string]string) error {
	n.client.mu.Lock()
	defer n.client.mu.Unlock()
	for _, other := range n.client.nodes {
		if other != n && other.runID == info["run_id"] {
			return errors.New("two addresses of one server")
		}
	}
	if info["role"] != "master" {
		n.known.run = "" // it may get the data of another
	}
	mode := info["redis_mode"] + info["server_mode"]
	switch {
	case info["loading"] == "1" || info["async_loading"] == "1", mode == "cluster", info["role"] != "master",
		info["maxmemory"] != "0" && info["maxmemory_policy"] != "noeviction",
		info["uptime_in_seconds"] == "", len(info["master_replid"]) != 40:
		return errors.New("refused")
	}
	n.runID = info["run_id"]
	return nil
}

// readFloor reads "floor" or "floor later from".
func readFloor(text string, gone bool, micros int64) int64 {
	words := strings.Fields(text + " 0 0 0")
	floor, later := number(words[0]), number(words[1])
	from, err := strconv.ParseInt(words[2], 10, 64)
	if len(strings.Fields(text)) == 3 && (gone || err == nil && micros >= from) {
		return max(floor, later)
	}
	return floor
}

// number reads a score.
func number(text string) int64 {
	score, _ := strconv.ParseFloat(text, 64)
	return int64(score)
}

// readRecord returns the epoch and the time.
func readRecord(text string) (epoch string, since int64) {
	words := append(strings.Fields(text), "", "")
	since, _ = strconv.ParseInt(words[1], 10, 64)
	return words[0], since
}

// keepsBacklog reports whether a master that was promoted shows it for as long as the guard's period.
func (n *node) keepsBacklog() bool {
	said, err := redis.StringMap(n.conn.Do("CONFIG", "GET", "repl-backlog-ttl"))
	seconds, bad := strconv.Atoi(said["repl-backlog-ttl"])
	return err == nil && bad == nil && (seconds == 0 || time.Duration(seconds)*time.Second >= n.client.guard)
}

// reconcile finds out since when the node has forgotten nothing, and notes it in its record.
func (n *node) reconcile(info map[string]string, record string, micros int64, now time.Time, fresh bool) error {
	c := n.client
	c.mu.Lock()
	old, jumpedAt := n.known, n.jumpedAt
	c.mu.Unlock()
	if c.guard == 0 {
		return nil
	}
	const second = time.Second
	uptime := time.Duration(number(info["uptime_in_seconds"])) * second
	promoted := info["master_replid2"] != strings.Repeat("0", 40)
	next := incarnation{epoch: info["master_replid"][:16], run: info["run_id"], uptime: uptime, micros: micros, at: now}
	goesOn := !promoted && old.run != "" && old.run == next.run && uptime >= old.uptime
	if goesOn && old.epoch != next.epoch {
		goesOn = n.keepsBacklog()
	}
	if !fresh && old.epoch != next.epoch && !goesOn {
		return errors.New("another server answers")
	}
	durable := info["aof_enabled"] == "1" && info["appendfsync"] == "always" && info["no-appendfsync-on-rewrite"] == "no"
	_, known := readRecord(old.record)
	formerly := old.epoch
	if goesOn {
		old.epoch = next.epoch
	}
	for range 3 {
		epoch, stored := readRecord(record)
		written := now.Add(-time.Duration(max(0, micros-stored)) * time.Microsecond)
		byUptime := now.Add(-max(0, uptime-second))
		older := epoch == next.epoch && uptime >= 0 && written.Before(byUptime)
		outlived := !promoted && uptime >= 0 && epoch != "" && epoch != "-" && stored <= micros &&
			stored >= micros-(uptime+2*second).Microseconds()
		current := epoch == next.epoch || goesOn && (epoch == formerly || stored == known) ||
			(old.epoch == "" || old.epoch == next.epoch) && outlived
		itself, noUptime := byUptime, promoted || uptime < 0
		switch {
		case noUptime && current, current && written.After(byUptime.Add(second)):
			itself = written
		case noUptime:
			itself = now
		}
		setBack := noUptime && known > micros-now.Sub(old.at).Microseconds()
		writtenSince := stored != known && current && (stored >= old.micros || setBack)
		switch {
		case jumpedAt.After(old.at) && !writtenSince:
			next.since = now
		case old.epoch == "":
			next.since = itself
		case old.epoch != next.epoch:
			next.since = latest(itself, old.at)
		case stored == known:
			next.since = old.since
		case writtenSince:
			next.since = latest(itself, old.since)
		default:
			next.since = now
		}
		keep := current && (next.since.Equal(old.since) || !next.since.After(written.Add(2*second))) ||
			older && old.epoch == "" ||
			!current && durable && strings.HasSuffix(record, " durable") && next.since.Equal(byUptime)
		if uptime < 0 && stored > micros && old.epoch == next.epoch && now.Sub(next.since) >= c.guard {
			keep = false
		}
		if !keep {
			stored = micros - now.Sub(next.since).Microseconds()
		}
		next.record = next.epoch + " " + strconv.FormatInt(stored, 10)
		if durable {
			next.record += " durable"
		}
		if next.record == record {
			break
		}
		script := redis.NewScript(1, source("node")+"-- \"\"\n")
		stands, err := redis.String(script.Do(n.conn, "redlock:node", record, next.record))
		if err != nil {
			return err
		}
		if record = stands; stands == next.record {
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n.known = next
	return nil
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

var (
	errClock   = errors.New("its clock is wrong")
	errForgets = errors.New("it may have forgotten")
)

// votes returns why the node's vote on a request does not count, or nil.
func (n *node) votes(asked time.Time) error {
	c := n.client
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case n.clockWrong:
		return errClock
	case c.guard > 0 && (n.known.epoch == "" || asked.Before(latest(n.known.since, n.jumpedAt).Add(c.guard))):
		return errForgets
	}
	return nil
}

// measured notes a reading of the node's clock, which showed micros between two readings of ours.
func (n *node) measured(micros, before, after int64) {
	c := n.client
	c.mu.Lock()
	defer c.mu.Unlock()
	offset, maxError := micros-(before+after)/2, (after-before+1)/2
	c.readings++
	n.maxError += (after - n.readAt) / 5000
	diff := max(offset-n.offset, n.offset-offset)
	if n.read > 0 && n.jumped == 0 && offset-n.offset > 1e6+n.maxError+maxError {
		n.jumped = c.readings
		for _, other := range c.nodes {
			other.probeSoon()
		}
	}
	if n.read == 0 || n.maxError >= maxError || diff > n.maxError+maxError {
		n.offset, n.maxError = offset, maxError
	}
	n.read, n.readAt = c.readings, after
	median, known := c.median()
	if n.jumped == 0 {
		n.ahead = n.offset - median
	}
	for _, m := range c.nodes {
		m.compare(median, known)
	}
}

// compare compares a node's clock with the others'. It is called with client.mu held.
func (n *node) compare(median int64, known int) {
	c, ahead, reread := n.client, n.offset-median, 0
	if n.read == 0 {
		return
	}
	n.clockWrong = max(ahead, -ahead) > 1e6+n.maxError
	if known < max(3, c.need) {
		n.clockWrong = ahead > c.retention.Microseconds()/2+n.maxError
	}
	for _, m := range c.nodes {
		if m.read >= n.jumped {
			reread++
		}
	}
	if n.jumped == 0 || reread < c.need {
		return
	}
	if len(c.nodes) >= 3 && ahead-n.ahead > 1e6+n.maxError {
		n.jumpedAt = time.Now()
		n.probeSoon()
	}
	n.jumped, n.ahead = 0, ahead
}

func (n *node) probeSoon() {
	select {
	case n.probe <- struct{}{}:
	default:
	}
}

// median returns the median of the known offsets, and how many are known. It is called with mu held.
func (c *client) median() (offset int64, known int) {
	var offsets []int64
	for _, n := range c.nodes {
		if n.read > 0 {
			offsets = append(offsets, n.offset)
		}
	}
	if len(offsets) == 0 {
		return 0, 0
	}
	slices.Sort(offsets)
	return offsets[(len(offsets)-1)/2], len(offsets)
}

// clock returns our clock in µs.
func (c *client) clock() int64 { return since(c.epoch).Microseconds() }

// nodesTime returns the nodes' time in µs. It is called with mu held.
func (c *client) nodesTime() int64 {
	median, _ := c.median()
	return c.clock() + median
}

func (c *client) time() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodesTime()
}
