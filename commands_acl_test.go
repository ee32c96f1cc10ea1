package redlock

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The ACL of the documentation allows the commands that are sent and those that scripts call, and no others.
func TestTheDocumentedACLAllowsWhatIsUsed(t *testing.T) {
	acl, err := os.ReadFile("docs/deploy/users.acl")
	if err != nil {
		t.Fatal(err)
	}
	_, rights, _ := strings.Cut(string(acl), "user redlock")
	allowed := strings.Fields(rights)
	files, _ := filepath.Glob("internal/lua/*.lua")
	used := []string{
		"time", "info", "config|get", "get", "set", "zremrangebyscore", "eval", "evalsha",
		"script|load", "script|exists", "subscribe", "unsubscribe",
	}
	tried := regexp.MustCompile(`\{ '([A-Z]+)'`)
	trial, err := os.ReadFile("internal/lua/trial.lua")
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile(`call\('([A-Z]+)'`)
	for _, f := range files {
		source, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range command.FindAllStringSubmatch(string(source), -1) {
			used = append(used, strings.ToLower(m[1]))
			if filepath.Base(f) != "list.lua" && m[1] != "PUBSUB" && // what depends on these goes without
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
		if c := strings.TrimPrefix(right, "+"); c != right && c != "@connection" && !slices.Contains(used, c) {
			t.Errorf("%s is not needed", right)
		}
	}
}
