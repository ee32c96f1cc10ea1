package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"github.com/quorumlock/redlock/integration/tokens"
)

// record is one hold as its client saw it. The times are those of the machine's wall clock, which all clients share, in
// ns.
type record struct {
	Client  string `json:"client"` // process and goroutine
	Owner   string `json:"owner,omitempty"`
	Kind    string `json:"kind"`
	Name    string `json:"name"` // of a hold of several names, there is a record for each
	Token   int64  `json:"token"`
	Asked   int64  `json:"asked"`   // read before the call that acquired
	Granted int64  `json:"granted"` // read after it
	// When the holder trusted it no longer: before Unlock, at the end of validity, or when told.
	Ended    int64 `json:"ended"`
	Released int64 `json:"released"` // read after Unlock; the same as Ended where the hold was over before
}

// The kinds of holds.
const (
	oneName      = "one name"
	severalNames = "several names"
	permit       = "permit"
	writing      = "write"
	reading      = "read" // beside others that read
	aRun         = "run"  // of a job
)

// Why there is no hold.
const (
	taken    = "taken"
	noQuorum = "no quorum"
)

// line is what a client prints: a hold, or why there is none, or something else that it did.
type line struct {
	Hold   *record  `json:"hold,omitempty"`
	Names  []string `json:"names,omitempty"` // of the hold
	Failed string   `json:"failed,omitempty"`
	Forced *act     `json:"forced,omitempty"` // about an owner
	Forgot *act     `json:"forgot,omitempty"` // about a job
	Done   *act     `json:"done,omitempty"`   // likewise, from the beginning of the run
}

// act is what a client did, from one moment to another. What may be cut short by a kill is printed twice: first without
// an end.
type act struct {
	Client string `json:"client"`
	About  string `json:"about"`
	Begun  int64  `json:"begun"`
	Ended  int64  `json:"ended,omitempty"`
	OK     bool   `json:"ok,omitempty"` // the call returned nil
}

// valid reports whether the client ever held: who learns of a grant when it is over does not.
func (r record) valid() bool { return r.Granted < r.Ended }

// hold is the record as the judge of tokens wants it.
func (r record) hold() tokens.Hold {
	return tokens.Hold{
		Name: r.Name, Reads: r.Kind == reading, Token: r.Token,
		Asked: time.Duration(r.Asked), Granted: time.Duration(r.Granted), Ended: time.Duration(r.Ended),
	}
}

// save writes a history, a hold a line, and returns the file's name.
func save(dir string, history []record) (string, error) {
	var text bytes.Buffer
	for all := json.NewEncoder(&text); len(history) > 0; history = history[1:] {
		if err := all.Encode(history[0]); err != nil {
			return "", err
		}
	}
	file := filepath.Join(dir, "history.jsonl")
	return file, os.WriteFile(file, text.Bytes(), 0o600)
}
