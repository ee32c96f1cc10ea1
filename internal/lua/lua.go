// Package lua embeds the scripts that run on the nodes: decisions that must be atomic. The head of each script is its
// contract: name, keys, arguments, reply. A script takes any number of locks in one call. Some files are parts that
// precede scripts. Their heads have no name and colon, because the simulation recognizes a script by these. A head's
// last line says which parts the file follows and, in parentheses, what it uses of their locals.
//
// It knows the scripts' texts and SHAs. It must not know which code sends them, or why.
package lua

import (
	"embed"
	"encoding/hex"
	"slices"
)

// Script is a text for EVAL, and its digest for EVALSHA.
type Script struct {
	Name   string // of its last file; "": it has none
	Source string
	SHA    string
}

//go:embed *.lua
var files embed.FS

// flags has Dragonfly let a script use keys that it does not declare. It must be the first line. Most keys are named by
// the scripts themselves: those of a queue follow from the lock's, a label's from its holder.
const flags = "--!df flags=allow-undeclared-keys\n"

// declared are the scripts that use only the keys which they are told.
var declared = []string{"trim", "settings", "lists", "node"}

// Load returns the script that consists of the named files, in that order, behind its flags. A name has no ".lua".
func Load(names ...string) *Script {
	var source []byte
	if !slices.Contains(declared, names[len(names)-1]) {
		source = append(source, flags...)
	}
	for _, name := range names {
		part, err := files.ReadFile(name + ".lua")
		if err != nil {
			panic(err) // embedded at build time
		}
		source = append(source, part...)
	}
	s := New(string(source))
	s.Name = names[len(names)-1]
	return s
}

// New returns the script with that source.
func New(source string) *Script {
	sum := SHA1(source)
	return &Script{Source: source, SHA: hex.EncodeToString(sum[:])}
}
