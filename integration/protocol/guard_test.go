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
	goesOn := !promoted && old.run == next.run && uptime >= old.uptime
	if !fresh && old.epoch != next.epoch && !goesOn {
		return errors.New("another server answers")
	}
	formerly := old.epoch
	if goesOn {
		old.record = strings.Replace(old.record, formerly+" ", next.epoch+" ", 1)
		old.epoch = next.epoch
	}
	durable := info["aof_enabled"] == "1" && info["appendfsync"] == "always" && info["no-appendfsync-on-rewrite"] == "no"
	for range 3 {
		words := append(strings.Fields(record), "", "", "")[:3]
		stored, _ := strconv.ParseInt(words[1], 10, 64)
		future := stored > micros+second.Microseconds()
		ofThisLife := !promoted && uptime >= 0 && words[0] != "" && words[0] != "-" && !future &&
			stored >= micros-(uptime+2*second).Microseconds()
		if goesOn && words[0] == formerly || ofThisLife {
			words[0] = next.epoch
		}
		read, current := strings.TrimSpace(strings.Join(words, " ")), words[0] == next.epoch
		written := now.Add(-time.Duration(max(0, micros-stored)) * time.Microsecond)
		itself := now.Add(-max(0, uptime-second))
		started := itself
		noUptime := promoted || uptime < 0
		dated := noUptime
		switch {
		case noUptime && current, current && written.After(itself.Add(second)):
			itself, dated = written, true
		case noUptime:
			itself = now
		}
		_, was, _ := strings.Cut(old.record, " ")
		before, _, _ := strings.Cut(was, " ")
		writtenSince := read != old.record && current &&
			(stored >= old.micros || dated && number(before) > micros+second.Microseconds())
		switch {
		case jumpedAt.After(old.at) && !writtenSince:
			next.since = now
		case old.epoch == "":
			next.since = itself
		case old.epoch != next.epoch:
			next.since = latest(itself, old.at)
		case read == old.record:
			next.since = old.since
		case writtenSince:
			next.since = latest(itself, old.since)
		default:
			next.since = now
		}
		keep := !future && current && (next.since.Equal(old.since) || !next.since.After(written.Add(2*second))) ||
			!current && durable && words[2] == "durable" && next.since.Equal(started)
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
