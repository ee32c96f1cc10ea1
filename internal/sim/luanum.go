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

// Redis' Lua compares texts by the server's locale, while its sorted sets go by bytes: so the nodes are Danish here,
// for whom "aa" comes after "z".

// These globals wrap the operands of ".." and of comparisons: names that no script can write.
const (
	concatHelper  = "..operand"
	collateHelper = "<operand"
)

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

func luaCollated(l *lua.LState) int {
	v := l.Get(1)
	if text, ok := v.(lua.LString); ok {
		v = lua.LString(strings.ReplaceAll(string(text), "aa", "\xff"))
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

// printNumbersAsLua wraps every operand of ".." in a syntax tree, and those of comparisons that may be of texts.
func printNumbersAsLua(tree reflect.Value) {
	switch tree.Kind() {
	case reflect.Pointer, reflect.Interface:
		if tree.IsNil() {
			return
		}
		printNumbersAsLua(tree.Elem())
		if tree.Kind() != reflect.Pointer {
			return
		}
		if e, ok := reflect.TypeAssert[*ast.StringConcatOpExpr](tree); ok {
			e.Lhs, e.Rhs = wrapOperand(concatHelper, e.Lhs), wrapOperand(concatHelper, e.Rhs)
		}
		if e, ok := reflect.TypeAssert[*ast.RelationalOpExpr](tree); ok && strings.ContainsAny(e.Operator, "<>") &&
			!isNumber(e.Lhs) && !isNumber(e.Rhs) {
			e.Lhs, e.Rhs = wrapOperand(collateHelper, e.Lhs), wrapOperand(collateHelper, e.Rhs)
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

// isNumber reports whether an expression can be nothing else, so that a comparison with it is quick.
func isNumber(e ast.Expr) bool {
	switch e.(type) {
	case *ast.NumberExpr, *ast.ArithmeticOpExpr, *ast.UnaryLenOpExpr:
		return true
	}
	return false
}

// wrapOperand makes "a .. b" read "helper(a) .. helper(b)".
func wrapOperand(helper string, e ast.Expr) ast.Expr {
	switch e.(type) {
	case *ast.StringExpr, *ast.StringConcatOpExpr:
		return e // of a comparison, too: no script compares with a constant text
	}
	name := &ast.IdentExpr{Value: helper}
	c := &ast.FuncCallExpr{Func: name, Args: []ast.Expr{e}, AdjustRet: true}
	for _, p := range []ast.PositionHolder{name, c} {
		p.SetLine(e.Line())
		p.SetLastLine(e.LastLine())
	}
	return c
}
