package fleet

import (
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/quorumlock/redlock/integration/masters"
)

// limited makes Lockers connect as the user of docs/deploy/users.acl, where
// REDLOCK_ACL is set: so the whole suite can be run with the rights that the
// documentation says are enough.
func limited(t *testing.T, spec masters.Spec) masters.Spec {
	t.Helper()
	if os.Getenv("REDLOCK_ACL") == "" || spec.User != "" || spec.Password != "" || spec.ClientUser != "" {
		return spec
	}
	return Limited(t, spec)
}

// Limited makes Lockers connect as the user of docs/deploy/users.acl. The default user, who is off
// there, stays the test's administrator.
func Limited(t *testing.T, spec masters.Spec) masters.Spec {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	acl, err := os.ReadFile(filepath.Join(filepath.Dir(here), "../../docs/deploy/users.acl"))
	Must(t, err)
	users := strings.Replace(string(acl), "user default off", "user default on nopass ~* &* +@all", 1)
	files := map[string]string{"users.acl": users}
	maps.Copy(files, spec.Files)
	spec.Files = files
	spec.Args = append([]string{"--aclfile", "{dir}/users.acl"}, spec.Args...)
	spec.ClientUser, spec.ClientPassword = "redlock", "CHANGE-ME"
	return spec
}
