package fleet

import (
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/quorumlock/redlock/integration/masters"
	"github.com/quorumlock/redlock/internal/cases"
)

// limited is Limited where REDLOCK_ACL is set: so the whole suite can be run with the rights that the documentation
// says are enough.
func limited(t *testing.T, spec masters.Spec) masters.Spec {
	t.Helper()
	if os.Getenv("REDLOCK_ACL") == "" || spec.User != "" || spec.Password != "" || spec.ClientUser != "" {
		return spec
	}
	return Limited(t, spec)
}

// The passwords that the users of docs/deploy get here: the placeholders there are hashes that no server takes.
const (
	AdminPassword = "sesame"
	AppPassword   = "secret"
)

// WithPasswords puts them into a list of users.
func WithPasswords(acl string) string {
	return strings.NewReplacer("#CHANGE-ME-TOO", ">"+AdminPassword, "#CHANGE-ME", ">"+AppPassword).Replace(acl)
}

// UsersFile returns docs/deploy/users.acl.
func UsersFile(t *testing.T) string {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	return string(cases.Must(os.ReadFile(filepath.Join(filepath.Dir(here), "../../docs/deploy/users.acl")))(t))
}

// Shipped makes Lockers connect as the user app of docs/deploy/users.acl, and the test as admin.
func Shipped(t *testing.T) masters.Spec {
	t.Helper()
	return masters.Spec{
		Args:  []string{"--aclfile", "{dir}/users.acl", "--acllog-max-len", "10000"},
		Files: map[string]string{"users.acl": WithPasswords(UsersFile(t))},
		User:  "admin", Password: AdminPassword, ClientUser: "app", ClientPassword: AppPassword,
	}
}

// Optional are the rights that docs/operations.md has for some users: that file gives none of them.
const Optional = "+select +scan +strlen +pubsub|channels +config|get"

// Limited makes Lockers connect as that user, but with any prefix and those rights, too. The default user, who is off
// there, stays the test's administrator.
func Limited(t *testing.T, spec masters.Spec) masters.Spec {
	t.Helper()
	shipped := Shipped(t)
	users := strings.NewReplacer(
		"user default off", "user default on nopass ~* &* +@all",
		"~app:* resetchannels &app:redlock:wake:*", "~* resetchannels &*redlock:wake:* "+Optional,
	).Replace(shipped.Files["users.acl"])
	files := map[string]string{"users.acl": users}
	maps.Copy(files, spec.Files)
	spec.Files = files
	spec.Args = append(shipped.Args, spec.Args...)
	spec.ClientUser, spec.ClientPassword = shipped.ClientUser, shipped.ClientPassword
	return spec
}
