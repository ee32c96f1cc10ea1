package sim

import (
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// openLibs gives scripts the libraries that the model has: base without files, string, table, math without randomness,
// and of redis what the scripts call.
func (in *interpreter) openLibs() {
	l := in.state
	for _, lib := range []struct {
		name string
		open lua.LGFunction
	}{
		{lua.BaseLibName, lua.OpenBase},
		{lua.TabLibName, lua.OpenTable},
		{lua.StringLibName, lua.OpenString},
		{lua.MathLibName, lua.OpenMath},
	} {
		l.Push(l.NewFunction(lib.open))
		l.Push(lua.LString(lib.name))
		l.Call(1, 0)
	}
	g := l.G.Global
	for _, name := range []string{
		"dofile", "loadfile", "print", "require", "module", "newproxy", "_printregs", "collectgarbage", "getfenv", "setfenv",
	} {
		g.RawSetString(name, lua.LNil)
	}
	for _, name := range []string{"random", "randomseed"} {
		l.GetGlobal("math").(*lua.LTable).RawSetString(name, lua.LNil)
	}
	g.RawSetString("tostring", l.NewFunction(luaToString))
	g.RawSetString(concatHelper, l.NewFunction(luaConcatOperand))
	g.RawSetString(collateHelper, l.NewFunction(luaCollated))
	l.GetGlobal("table").(*lua.LTable).RawSetString("concat", l.NewFunction(luaTableConcat))
	str := l.GetGlobal("string").(*lua.LTable)
	str.RawSetString("format", l.NewFunction(luaFormat(str.RawGetString("format").(*lua.LFunction).GFunction)))
	g.RawSetString("redis", in.redisTable())
	in.protectGlobals()
}

// protectGlobals makes reading an unknown global and writing any an error, as Redis does.
func (in *interpreter) protectGlobals() {
	l := in.state
	meta := l.NewTable()
	meta.RawSetString("__index", l.NewFunction(func(l *lua.LState) int {
		name := lua.LVAsString(l.Get(2))
		if name == "KEYS" || name == "ARGV" {
			return 0
		}
		l.RaiseError("Script attempted to access nonexistent global variable '%s'", name)
		return 0
	}))
	meta.RawSetString("__newindex", l.NewFunction(func(l *lua.LState) int {
		l.RaiseError("Attempt to modify a readonly table")
		return 0
	}))
	l.G.Global.Metatable = meta
}

func (in *interpreter) redisTable() *lua.LTable {
	l := in.state
	t := l.NewTable()
	t.RawSetString("call", l.NewFunction(func(l *lua.LState) int { return in.call(l, true) }))
	t.RawSetString("pcall", l.NewFunction(func(l *lua.LState) int { return in.call(l, false) }))
	t.RawSetString("acl_check_cmd", l.NewFunction(func(l *lua.LState) int {
		name := strings.ToLower(luaString(l.Get(1)))
		if _, ok := commands[name]; !ok || in.running.disabled[name] {
			l.RaiseError("Invalid command passed to redis.acl_check_cmd()")
		}
		l.Push(lua.LBool(!in.running.denied[name]))
		return 1
	}))
	t.RawSetString("sha1hex", l.NewFunction(func(l *lua.LState) int {
		if l.GetTop() != 1 {
			l.RaiseError("wrong number of arguments")
		}
		l.Push(lua.LString(sha1hex(luaString(l.Get(1)))))
		return 1
	}))
	return t
}

// call is redis.call, which raises a command's error, and redis.pcall, which returns it as a table.
func (in *interpreter) call(l *lua.LState, raise bool) int {
	args := make([]string, l.GetTop())
	reply := any(nil)
	if len(args) == 0 {
		reply = Error("ERR Please specify at least one argument for this redis.call() call")
	}
	for i := range args {
		switch v := l.Get(i + 1).(type) {
		case lua.LString:
			args[i] = string(v)
		case lua.LNumber:
			args[i] = formatG(float64(v), 17)
		default:
			reply = Error("ERR Lua redis lib command arguments must be strings or integers")
		}
	}
	if reply == nil {
		x := *in.running
		x.args = args
		reply = x.dispatch(true)
		x.values += values(reply)
	}
	v := toLua(reply)
	if _, failed := reply.(Error); failed && raise {
		l.Error(v, 1)
	}
	l.Push(v)
	return 1
}

// values returns how many values a reply consists of.
func values(reply any) (n int64) {
	list, many := reply.([]any)
	if !many {
		return 1
	}
	for _, v := range list {
		n += values(v)
	}
	return n
}
