package sim

import (
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
)

// Lua 5.1 turns numbers into strings by "%.14g": a token of 1.7e15 loses its last digits wherever a script prints or
// concatenates it. gopher-lua prints all digits and so would hide exactly that bug. The functions below restore it; the
// operator .. cannot be replaced by a function, so its operands are wrapped in the syntax tree.

// concatHelper is the global that wraps an operand of "..": a name that no script can write.
const concatHelper = "..operand"

func luaString(v lua.LValue) string {
	if n, ok := v.(lua.LNumber); ok {
		return formatG(float64(n), 14)
	}
	return lua.LVAsString(v)
}

func luaToString(l *lua.LState) int {
	v := l.CheckAny(1)
	if n, ok := v.(lua.LNumber); ok {
		l.Push(lua.LString(luaString(n)))
	} else {
		l.Push(l.ToStringMeta(v))
	}
	return 1
}

func luaConcatOperand(l *lua.LState) int {
	v := l.Get(1)
	if n, ok := v.(lua.LNumber); ok {
		v = lua.LString(luaString(n))
	}
	l.Push(v)
	return 1
}

func luaTableConcat(l *lua.LState) int {
	t, sep := l.CheckTable(1), l.OptString(2, "")
	from, to := l.OptInt(3, 1), l.OptInt(4, t.Len())
	parts := []string{}
	for i := from; i <= to; i++ {
		v := t.RawGetInt(i)
		if !lua.LVCanConvToString(v) {
			l.RaiseError("invalid value (%s) at index %d in table for 'concat'", v.Type(), i)
		}
		parts = append(parts, luaString(v))
	}
	l.Push(lua.LString(strings.Join(parts, sep)))
	return 1
}

// luaFormat is string.format: %d truncates, %s prints numbers with 14 digits, floats are C's.
func luaFormat(l *lua.LState) int {
	f := l.CheckString(1)
	var b strings.Builder
	arg := 1
	for i := 0; i < len(f); i++ {
		if f[i] != '%' {
			b.WriteByte(f[i])
			continue
		}
		j := i + 1
		for j < len(f) && strings.IndexByte("-+ #0123456789.", f[j]) >= 0 {
			j++
		}
		if j == len(f) {
			l.RaiseError("invalid option '%%' to 'format'")
		}
		spec, verb := f[i:j], f[j]
		i = j
		if verb == '%' {
			b.WriteByte('%')
			continue
		}
		arg++
		b.WriteString(formatOne(l, spec, verb, arg))
	}
	l.Push(lua.LString(b.String()))
	return 1
}

func formatOne(l *lua.LState, spec string, verb byte, arg int) string {
	switch verb {
	case 'd', 'i':
		return sprintf(spec+"d", int64(l.CheckNumber(arg)))
	case 'c', 'o', 'x', 'X':
		return sprintf(spec+string(verb), int64(l.CheckNumber(arg)))
	case 'u':
		return sprintf(spec+"d", uint64(int64(l.CheckNumber(arg))))
	case 'e', 'E', 'f', 'g', 'G':
		v := float64(l.CheckNumber(arg))
		if verb == 'g' && spec == "%" {
			return strconv.FormatFloat(v, 'g', 6, 64)
		}
		return sprintf(spec+string(verb), v)
	case 'q':
		return strconv.Quote(l.CheckString(arg))
	case 's':
		v := l.CheckAny(arg)
		if n, ok := v.(lua.LNumber); ok {
			return sprintf(spec+"s", luaString(n))
		}
		return sprintf(spec+"s", lua.LVAsString(l.ToStringMeta(v)))
	}
	l.RaiseError("invalid option '%%%s' to 'format'", string(verb))
	return ""
}

// wrapOperand makes "a .. b" read "helper(a) .. helper(b)".
func wrapOperand(e ast.Expr) ast.Expr {
	switch e.(type) {
	case *ast.StringExpr, *ast.StringConcatOpExpr:
		return e
	}
	name := &ast.IdentExpr{Value: concatHelper}
	c := &ast.FuncCallExpr{Func: name, Args: []ast.Expr{e}, AdjustRet: true}
	for _, p := range []ast.PositionHolder{name, c} {
		p.SetLine(e.Line())
		p.SetLastLine(e.LastLine())
	}
	return c
}
