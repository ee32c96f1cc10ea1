package redlock

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The ACL of the documentation allows the commands that are sent and those that scripts call, and no others: with those
// that docs/operations.md has for some users.
func TestTheDocumentedACLAllowsWhatIsUsed(t *testing.T) {
	acl := must(os.ReadFile("docs/deploy/users.acl"))(t)
	page := must(os.ReadFile("docs/operations.md"))(t)
	_, shipped, _ := strings.Cut(string(acl), " &app:redlock:wake:* ")
	allowed := strings.Fields(shipped)
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\+.*)` \\| no ").FindAllStringSubmatch(string(page), -1) {
		allowed = append(allowed, strings.Fields(strings.ReplaceAll(row[1], `\|`, "|"))...)
	}
	files, _ := filepath.Glob("internal/lua/*.lua")
	used := []string{
		"time", "info", "config|get", "get", "set", "zremrangebyscore", "eval", "evalsha",
		"script|load", "script|exists", "subscribe", "ping", "select",
	}
	tried := regexp.MustCompile(`\{ '([A-Z]+)'`)
	trial := must(os.ReadFile("internal/lua/trial.lua"))(t)
	command := regexp.MustCompile(`call\('([A-Z]+(?:', 'CHANNELS)?)'`)
	for _, f := range files {
		source := must(os.ReadFile(f))(t)
		for _, m := range command.FindAllStringSubmatch(string(source), -1) {
			used = append(used, strings.ToLower(strings.ReplaceAll(m[1], "', '", "|")))
			if filepath.Base(f) != "list.lua" && !strings.HasPrefix(m[1], "PUBSUB") && // what depends on these goes without
				!slices.ContainsFunc(tried.FindAllStringSubmatch(string(trial), -1),
					func(t []string) bool { return t[1] == m[1] }) {
				t.Errorf("%s calls %s, which the trial does not try", f, m[1])
			}
		}
	}
	if len(used) < 25 {
		t.Errorf("only %d commands found", len(used))
	}
	for _, c := range used {
		if !slices.Contains(allowed, "+"+c) {
			t.Errorf("+%s is missing", c)
		}
	}
	for _, right := range allowed {
		if !slices.Contains(used, strings.TrimPrefix(right, "+")) {
			t.Errorf("%s is not needed", right)
		}
	}
}
