package sim

import (
	"reflect"
	"strings"
	"sync"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// program is a compiled script. It is immutable and shared by all nodes of the process.
type program struct {
	proto  *lua.FunctionProto
	source string
}

// programs remembers compiled scripts by SHA1, for the life of the process: thousands of simulated nodes load the same
// few.
var programs sync.Map

// compile returns the program of a source; source may be empty if the SHA1 is known to be compiled.
func compile(sha, source string) (*program, error) {
	if p, ok := programs.Load(sha); ok {
		return p.(*program), nil
	}
	chunk, err := parse.Parse(strings.NewReader(source), "user_script")
	if err != nil {
		return nil, err
	}
	printNumbersAsLua(reflect.ValueOf(chunk))
	proto, err := lua.Compile(chunk, "user_script")
	if err != nil {
		return nil, err
	}
	p, _ := programs.LoadOrStore(sha, &program{proto, source})
	return p.(*program), nil
}

// A call of a function with "..." would make a table arg besides, which no script reads.
func init() { lua.CompatVarArg = false }

// interpreter is a node's Lua. Like Redis it has one state for all scripts, and scripts cannot leave globals behind.
type interpreter struct {
	state   *lua.LState
	running *call    // the EVAL under way
	dirty   bool     // it has written
	program *program // which is run
	keys    []string // that it declares
}

func newInterpreter() *interpreter {
	in := &interpreter{state: lua.NewState(lua.Options{
		SkipOpenLibs: true, RegistrySize: 1024, RegistryMaxSize: 1 << 20, RegistryGrowStep: 1024, MinimizeStackMemory: true,
	})}
	in.openLibs()
	return in
}

// run executes a script for the call and turns its result into a reply.
func (in *interpreter) run(x *call, sha string, p *program, keys, args []string) any {
	in.running, in.dirty, in.program, in.keys = x, false, p, keys
	defer func() { in.running = nil }()
	l := in.state
	globals := l.G.Global
	globals.RawSetString("KEYS", stringTable(keys))
	globals.RawSetString("ARGV", stringTable(args))

	l.Push(l.NewFunctionFromProto(p.proto))
	if err := l.PCall(0, 1, nil); err != nil {
		l.SetTop(0)
		return scriptError(err, sha)
	}
	result := l.Get(-1)
	l.SetTop(0)
	return fromLua(result)
}

// scriptError is what Redis answers when an error leaves the script: the code of a command's error survives, an error
// of Lua gets ERR, and where it happened is told at the end.
func scriptError(err error, sha string) Error {
	message := err.Error()
	if e, ok := err.(*lua.ApiError); ok { //nolint:errorlint // PCall returns it unwrapped
		message = lua.LVAsString(e.Object)
		if t, ok := e.Object.(*lua.LTable); ok {
			message = lua.LVAsString(t.RawGetString("err"))
		} else {
			message = "ERR " + message
		}
	}
	return Error(oneLine(message) + " script: " + sha + ", on @user_script:1.")
}

// newTable makes room for what comes: a table that grows has room for 32 at once.
func newTable(array, hash int) *lua.LTable { return (*lua.LState)(nil).CreateTable(array, hash) }

func stringTable(values []string) *lua.LTable {
	t := newTable(len(values), 0)
	for _, v := range values {
		t.Append(lua.LString(v))
	}
	return t
}

// toLua converts a reply as redis.call does: nil becomes false, a status {ok=…}, an error {err=…}.
func toLua(reply any) lua.LValue {
	switch v := reply.(type) {
	case nil:
		return lua.LFalse
	case int64:
		return lua.LNumber(v)
	case string:
		return lua.LString(v)
	case Status:
		return field("ok", string(v))
	case Error:
		return field("err", string(v))
	case []any:
		t := newTable(len(v), 0)
		for _, e := range v {
			t.Append(toLua(e))
		}
		return t
	}
	return lua.LNil
}

func field(name, value string) *lua.LTable {
	t := newTable(0, 1)
	t.RawSetString(name, lua.LString(value))
	return t
}

// fromLua converts a script's result: numbers lose their fraction, true is 1, false and nil are nil, a table ends at
// its first nil.
func fromLua(value lua.LValue) any {
	switch v := value.(type) {
	case lua.LString:
		return string(v)
	case lua.LNumber:
		return int64(v)
	case lua.LBool:
		if v {
			return int64(1)
		}
		return nil
	case *lua.LTable:
		if e, ok := v.RawGetString("err").(lua.LString); ok {
			return Error(oneLine(string(e)))
		}
		if s, ok := v.RawGetString("ok").(lua.LString); ok {
			return Status(oneLine(string(s)))
		}
		r := []any{}
		for i := 1; ; i++ {
			e := v.RawGetInt(i)
			if e == lua.LNil {
				return r
			}
			r = append(r, fromLua(e))
		}
	}
	return nil
}

func oneLine(s string) string { return strings.NewReplacer("\r", " ", "\n", " ").Replace(s) }
