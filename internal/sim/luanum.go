package sim

import (
	"reflect"
	"regexp"
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

var directives = regexp.MustCompile(`%[-+ #0-9.]*[a-zA-Z%]`)

// luaFormat is string.format, given that of gopher-lua: numbers for %s become text before.
func luaFormat(original lua.LGFunction) lua.LGFunction {
	return func(l *lua.LState) int {
		arg := 1
		for _, d := range directives.FindAllString(l.CheckString(1), -1) {
			verb := d[len(d)-1]
			if verb != '%' {
				arg++
			}
			if n, ok := l.Get(arg).(lua.LNumber); ok && verb == 's' {
				l.Replace(arg, lua.LString(luaString(n)))
			}
		}
		return original(l)
	}
}

// printNumbersAsLua wraps every operand of ".." in a syntax tree.
func printNumbersAsLua(tree reflect.Value) {
	switch tree.Kind() {
	case reflect.Pointer, reflect.Interface:
		if tree.IsNil() {
			return
		}
		printNumbersAsLua(tree.Elem())
		if e, ok := reflect.TypeAssert[*ast.StringConcatOpExpr](tree); ok && tree.Kind() == reflect.Pointer {
			e.Lhs, e.Rhs = wrapOperand(e.Lhs), wrapOperand(e.Rhs)
		}
	case reflect.Struct:
		for i := range tree.NumField() {
			printNumbersAsLua(tree.Field(i))
		}
	case reflect.Slice:
		for i := range tree.Len() {
			printNumbersAsLua(tree.Index(i))
		}
	default: // a name, a number or a position
	}
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
