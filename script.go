package redlock

import "github.com/quorumlock/redlock/internal/lua"

// script is one of ours, as it goes on the wire.
type script struct {
	source any    // string, boxed for the wire
	sha    string // what EVALSHA calls it
	call   []byte // EVALSHA and that, in the form of the wire
}

var scripts []*script // all of them: loaded whenever a node is connected

// newScript returns the script in the files, one after the other.
func newScript(files ...string) *script {
	text := lua.Load(files...)
	s := &script{source: text.Source, sha: text.SHA}
	s.call = appendBulk(appendBulk(nil, "EVALSHA"), s.sha)
	scripts = append(scripts, s)
	return s
}
