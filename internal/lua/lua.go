// Package lua holds the scripts that run on the nodes: decisions that must be taken there, atomically. The head of
// each file is its contract: keys, arguments, replies. Every script takes any number of locks at once.
//
// It knows the scripts' texts and their names for EVALSHA. It knows nothing of who sends them, or why.
package lua

import (
	"crypto/sha1" //nolint:gosec // the name that Redis gives a script; no secret
	"embed"
	"encoding/hex"
)

// Script is a text for EVAL and its name for EVALSHA.
type Script struct {
	Source string
	SHA    string
}

//go:embed *.lua
var files embed.FS

// Load returns the script made of the named files, one after the other, without their ".lua".
func Load(names ...string) *Script {
	var source []byte
	for _, name := range names {
		part, err := files.ReadFile(name + ".lua")
		if err != nil {
			panic(err) // embedded at build time
		}
		source = append(source, part...)
	}
	return New(string(source))
}

// New returns the script with that source.
func New(source string) *Script {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // see above
	return &Script{source, hex.EncodeToString(sum[:])}
}
