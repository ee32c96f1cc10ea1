// Package lua embeds the scripts that run on the nodes: decisions that must be atomic. The head of each script is its
// contract: name, keys, arguments, reply. A script takes any number of locks in one call. Some files are parts that
// precede scripts. Their heads have no name and colon, because the simulation recognizes a script by these.
//
// It knows the scripts' texts and SHAs. It must not know which code sends them, or why.
package lua

import (
	"crypto/sha1" //nolint:gosec // Redis's digest of a script; no secret
	"embed"
	"encoding/hex"
)

// Script is a text for EVAL, and its digest for EVALSHA.
type Script struct {
	Source string
	SHA    string
}

//go:embed *.lua
var files embed.FS

// Load returns the script that consists of the named files, in that order. A name has no ".lua".
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
