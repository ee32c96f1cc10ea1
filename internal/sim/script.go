package sim

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strings"
)

func sha1hex(s string) string {
	h := sha1.Sum([]byte(s))
	return hex.EncodeToString(h[:])
}

func cmdEval(x *call) any {
	sha := sha1hex(x.args[1])
	p, err := compile(sha, x.args[1])
	if err != nil {
		return compileError(err)
	}
	x.scripts[sha] = true
	return x.runScript(sha, p)
}

func cmdEvalSHA(x *call) any {
	sha := strings.ToLower(x.args[1])
	if !x.scripts[sha] {
		return Error("NOSCRIPT No matching script. Please use EVAL.")
	}
	p, _ := compile(sha, "") // known: it was compiled when it was loaded
	return x.runScript(sha, p)
}

// compileError keeps the error on one line, as RESP demands.
func compileError(err error) Error {
	return Error("ERR Error compiling script (new function): " + strings.Join(strings.Fields(err.Error()), " "))
}

// runScript splits keys from arguments and runs the script.
func (x *call) runScript(sha string, p *program) any {
	n, ok := parseInt(x.args[2])
	switch {
	case !ok:
		return errNotInt
	case n > int64(len(x.args)-3):
		return Error("ERR Number of keys can't be greater than number of args")
	case n < 0:
		return Error("ERR Number of keys can't be negative")
	}
	if x.lua == nil {
		x.lua = newInterpreter()
	}
	return x.lua.run(x, sha, p, x.args[3:3+n], x.args[3+n:])
}

func cmdScript(x *call) any {
	switch sub := strings.ToLower(x.args[1]); {
	case sub == "load" && len(x.args) == 3:
		sha := sha1hex(x.args[2])
		if _, err := compile(sha, x.args[2]); err != nil {
			return compileError(err)
		}
		x.scripts[sha] = true
		return sha
	case sub == "exists" && len(x.args) >= 3:
		r := []any{}
		for _, sha := range x.args[2:] {
			r = append(r, bit(x.scripts[strings.ToLower(sha)]))
		}
		return r
	case sub == "flush":
		x.scripts = map[string]bool{}
		return OK
	}
	return Error(fmt.Sprintf("ERR unknown subcommand or wrong number of arguments for '%.128s'. Try SCRIPT HELP.",
		x.args[1]))
}
