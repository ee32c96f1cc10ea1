package sim

import (
	"fmt"

	"github.com/yuin/gopher-lua/ast"
)

// sprintf is fmt.Sprintf for formats that a script made; vet cannot check those.
var sprintf = fmt.Sprintf

// printNumbersAsLua wraps every operand of ".." in the statements; see luanum.go.
func printNumbersAsLua(stmts []ast.Stmt) {
	for _, s := range stmts {
		switch s := s.(type) {
		case *ast.AssignStmt:
			walkAll(s.Lhs)
			walkAll(s.Rhs)
		case *ast.LocalAssignStmt:
			walkAll(s.Exprs)
		case *ast.FuncCallStmt:
			walk(s.Expr)
		case *ast.DoBlockStmt:
			printNumbersAsLua(s.Stmts)
		case *ast.WhileStmt:
			walk(s.Condition)
			printNumbersAsLua(s.Stmts)
		case *ast.RepeatStmt:
			walk(s.Condition)
			printNumbersAsLua(s.Stmts)
		case *ast.IfStmt:
			walk(s.Condition)
			printNumbersAsLua(s.Then)
			printNumbersAsLua(s.Else)
		case *ast.NumberForStmt:
			walkAll([]ast.Expr{s.Init, s.Limit, s.Step})
			printNumbersAsLua(s.Stmts)
		case *ast.GenericForStmt:
			walkAll(s.Exprs)
			printNumbersAsLua(s.Stmts)
		case *ast.FuncDefStmt:
			walk(s.Func)
		case *ast.ReturnStmt:
			walkAll(s.Exprs)
		}
	}
}

func walkAll(exprs []ast.Expr) {
	for _, e := range exprs {
		walk(e)
	}
}

func walk(e ast.Expr) {
	switch e := e.(type) {
	case *ast.StringConcatOpExpr:
		walk(e.Lhs)
		walk(e.Rhs)
		e.Lhs, e.Rhs = wrapOperand(e.Lhs), wrapOperand(e.Rhs)
	case *ast.AttrGetExpr:
		walk(e.Object)
		walk(e.Key)
	case *ast.TableExpr:
		for _, f := range e.Fields {
			walk(f.Key)
			walk(f.Value)
		}
	case *ast.FuncCallExpr:
		walk(e.Func)
		walk(e.Receiver)
		walkAll(e.Args)
	case *ast.LogicalOpExpr:
		walk(e.Lhs)
		walk(e.Rhs)
	case *ast.RelationalOpExpr:
		walk(e.Lhs)
		walk(e.Rhs)
	case *ast.ArithmeticOpExpr:
		walk(e.Lhs)
		walk(e.Rhs)
	case *ast.UnaryMinusOpExpr:
		walk(e.Expr)
	case *ast.UnaryNotOpExpr:
		walk(e.Expr)
	case *ast.UnaryLenOpExpr:
		walk(e.Expr)
	case *ast.FunctionExpr:
		printNumbersAsLua(e.Stmts)
	}
}
