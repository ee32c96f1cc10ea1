package main

import (
	"time"

	"github.com/quorumlock/redlock"
)

// What --json prints. Durations are in seconds, times in RFC 3339; docs/cli.md has the fields.

// nodeObject is a node as doctor and top see it.
type nodeObject struct {
	Addr          string     `json:"addr"`
	Votes         bool       `json:"votes"`
	Error         string     `json:"error,omitempty"`
	Server        string     `json:"server,omitempty"`
	Version       string     `json:"version,omitempty"`
	Role          string     `json:"role,omitempty"`
	Uptime        float64    `json:"uptime_seconds"`
	AbstainsUntil *time.Time `json:"abstains_until,omitempty"`
	Persistence   string     `json:"persistence,omitempty"`
	Eviction      string     `json:"eviction_policy,omitempty"`
	MaxMemory     int64      `json:"max_memory_bytes"`
	ClockOffset   float64    `json:"clock_offset_seconds"`
	RoundTrip     float64    `json:"round_trip_seconds"`
}

func nodeObjects(nodes []redlock.NodeStatus) []nodeObject {
	list := make([]nodeObject, len(nodes))
	for i, n := range nodes {
		o := nodeObject{
			Addr: n.Addr, Votes: n.Err == nil, Server: n.Product, Version: n.Version, Role: n.Role, Uptime: n.Uptime.Seconds(),
			Persistence: n.Persistence, Eviction: n.EvictionPolicy, MaxMemory: n.MaxMemory,
			ClockOffset: n.ClockOffset.Seconds(), RoundTrip: n.RoundTrip.Seconds(),
		}
		if n.Err != nil {
			o.Error = complaint(n.Err)
		}
		if !n.AbstainsUntil.IsZero() {
			o.AbstainsUntil = &n.AbstainsUntil
		}
		list[i] = o
	}
	return list
}

type diagnosisObject struct {
	Verdict  string          `json:"verdict"`
	Voting   int             `json:"voting"`
	Nodes    []nodeObject    `json:"nodes"`
	Findings []findingObject `json:"findings"`
}

type findingObject struct {
	Node     string `json:"node,omitempty"`
	Code     string `json:"code"`
	Severity string `json:"severity"`
	Text     string `json:"text"`
	Remedy   string `json:"remedy"`
}

func (d *diagnosis) object() diagnosisObject {
	severities := map[redlock.Severity]string{redlock.Note: "note", redlock.Degraded: "degraded", redlock.Unsafe: "unsafe"}
	o := diagnosisObject{Verdict: verdicts[d.code], Voting: d.voting, Nodes: nodeObjects(d.nodes), Findings: []findingObject{}}
	for _, f := range d.findings {
		o.Findings = append(o.Findings, findingObject{f.node, f.Code, severities[f.Severity], f.Text, f.Remedy})
	}
	return o
}

// nameObject is a name as status and top see it.
type nameObject struct {
	Name      string        `json:"name"`
	Known     bool          `json:"known"` // a majority has answered
	Held      bool          `json:"held"`
	Owner     string        `json:"owner,omitempty"`
	Readers   []string      `json:"readers,omitempty"`
	Token     int64         `json:"token,omitempty"`
	Remaining float64       `json:"remaining_seconds"`
	Waiting   int           `json:"waiting"`
	Runs      *runsObject   `json:"runs,omitempty"`
	Nodes     []sightObject `json:"nodes"`
}

type runsObject struct {
	Begun     int     `json:"begun"`
	Last      string  `json:"last"`
	Token     int64   `json:"token"`
	Remaining float64 `json:"remaining_seconds"`
}

// sightObject is what one node knows of a name.
type sightObject struct {
	Addr      string      `json:"addr"`
	Counts    bool        `json:"counts"`
	Error     string      `json:"error,omitempty"`
	Owner     string      `json:"owner,omitempty"`
	Token     int64       `json:"token,omitempty"`
	Remaining float64     `json:"remaining_seconds"`
	Waiting   int         `json:"waiting"`
	Runs      *runsObject `json:"runs,omitempty"`
}

// inspectionObject says the same as printStatus; unknown is why a majority's word is not known, or nil.
func inspectionObject(i redlock.Inspection, unknown error) nameObject {
	runs := func(r redlock.Runs) *runsObject {
		if r.Begun == 0 {
			return nil
		}
		return &runsObject{r.Begun, string(r.Last), r.Token, max(r.Remaining, 0).Seconds()}
	}
	o := nameObject{
		Name: i.Name, Known: unknown == nil, Held: i.Owner != "", Owner: i.Owner, Readers: i.Readers, Token: i.Token,
		Remaining: i.Remaining.Seconds(), Waiting: i.Waiting, Runs: runs(i.Runs), Nodes: []sightObject{},
	}
	for _, n := range i.Nodes {
		v := sightObject{
			Addr: n.Addr, Counts: n.Err == nil, Owner: n.Owner, Token: n.Token, Remaining: n.Remaining.Seconds(),
			Waiting: n.Waiting, Runs: runs(n.Runs),
		}
		if n.Err != nil {
			v.Error = complaint(n.Err)
		}
		o.Nodes = append(o.Nodes, v)
	}
	return o
}

type viewObject struct {
	Voting int          `json:"voting"`
	Nodes  []nodeObject `json:"nodes"`
	Names  []nameObject `json:"names"`
}

func (v *view) object() viewObject {
	o := viewObject{Voting: voting(v.nodes), Nodes: nodeObjects(v.nodes), Names: []nameObject{}}
	for k, i := range v.names {
		o.Names = append(o.Names, inspectionObject(i, v.known[k]))
	}
	return o
}
