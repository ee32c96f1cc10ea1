package redlock

import (
	"crypto/sha1" //nolint:gosec // the name that Redis gives a script; no secret
	"embed"
	"encoding/hex"
)

// script is a decision that must be taken on the node, atomically. The head of
// each file is its contract. Every script takes any number of locks at once.
type script struct {
	source any    // string, boxed for the wire
	sha    string // what EVALSHA calls it
	call   []byte // EVALSHA and that, in the form of the wire
}

//go:embed lua/*.lua
var sources embed.FS

var scripts []*script // all of them: loaded whenever a node is connected

// newScript returns the script in the files, one after the other.
func newScript(files ...string) *script {
	var source []byte
	for _, name := range files {
		part, err := sources.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err) // embedded at build time
		}
		source = append(source, part...)
	}
	sum := sha1.Sum(source) //nolint:gosec // see above
	s := &script{source: string(source), sha: hex.EncodeToString(sum[:])}
	s.call = appendBulk(appendBulk(nil, "EVALSHA"), s.sha)
	scripts = append(scripts, s)
	return s
}
