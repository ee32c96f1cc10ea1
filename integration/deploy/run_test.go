package deploy_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
)

// A manifest is as much of an object as these tests need; integration/kubernetes knows the rest.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string              // of a ConfigMap
	Secret   map[string]string              `yaml:"stringData"`
	Spec     struct{ Template podTemplate } // of a StatefulSet or a Job
}

type podTemplate struct {
	Spec struct{ Containers []container }
}

type probe struct{ Exec struct{ Command []string } }

type container struct {
	LivenessProbe  probe `yaml:"livenessProbe"`
	ReadinessProbe probe `yaml:"readinessProbe"`
	Env            []struct {
		Name, Value string
		ValueFrom   struct {
			SecretKeyRef struct{ Name, Key string } `yaml:"secretKeyRef"`
		} `yaml:"valueFrom"`
	}
}

// manifests are those of docs/deploy/kubernetes.
type manifests []manifest

func readManifests(t *testing.T) (all manifests) {
	t.Helper()
	files, err := filepath.Glob("../../docs/deploy/kubernetes/*.yaml")
	fleet.Must(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		fleet.Must(t, err)
		for documents := yaml.NewDecoder(bytes.NewReader(text)); ; {
			var m manifest
			if err := documents.Decode(&m); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			all = append(all, m)
		}
	}
	return all
}

func (all manifests) get(t *testing.T, kind, name string) manifest {
	t.Helper()
	i := slices.IndexFunc(all, func(m manifest) bool { return m.Kind == kind && m.Metadata.Name == name })
	if i < 0 {
		t.Fatalf("there is no %s %s", kind, name)
	}
	return all[i]
}

func (all manifests) container(t *testing.T, kind, name string) container {
	t.Helper()
	return all.get(t, kind, name).Spec.Template.Spec.Containers[0]
}

// doctorURLs returns the URLs that doctor gets, with the password in them.
func (all manifests) doctorURLs(t *testing.T) []string {
	t.Helper()
	env := all.container(t, "Job", "redlock-doctor").Env
	if len(env) != 3 || env[1].Value != "app:" || env[2].Name != "REDLOCK_NODES" {
		t.Fatalf("got %+v, want the password, the prefix and the URLs", env)
	}
	from := env[0].ValueFrom.SecretKeyRef
	password := strings.Replace(all.get(t, "Secret", from.Name).Secret[from.Key], "CHANGE-ME", fleet.AppPassword, 1)
	return strings.Fields(strings.ReplaceAll(env[2].Value, "$("+env[0].Name+")", password))
}

// startAsInPods starts five masters with the configuration and the users of the manifests. Only the paths, the address
// and the port are others.
func startAsInPods(t *testing.T, all manifests) fleet.Fleet {
	t.Helper()
	conf := all.get(t, "ConfigMap", "redis").Data["redis.conf"]
	if !strings.Contains(conf, "aclfile /etc/redis/users.acl\n") {
		t.Fatalf("where are the users?\n%s", conf)
	}
	return fleet.StartSpec(t, 5, masters.Spec{
		Files: map[string]string{
			"redis.conf": strings.Replace(conf, "aclfile /etc/redis/users.acl\n", "", 1),
			"users.acl":  fleet.WithPasswords(all.get(t, "Secret", "redis-users").Secret["users.acl"]),
		},
		Args: []string{
			"--include", "{dir}/redis.conf", "--aclfile", "{dir}/users.acl", "--bind", "*", "--port", "{port}",
		},
		User: "admin", Password: fleet.AdminPassword, ClientUser: "app", ClientPassword: fleet.AppPassword,
	})
}

// Masters with the manifests' configuration, and a client with doctor's user and password: nothing is to be mended, and
// the lock outlives a master that comes back empty.
func TestTheManifestsRun(t *testing.T) {
	t.Parallel()
	all := readManifests(t)
	f := startAsInPods(t, all)
	var urls []string
	for i, in := range all.doctorURLs(t) {
		u, err := url.Parse(in)
		fleet.Must(t, err)
		u.Host = f.Nodes[i].Addr()
		urls = append(urls, u.String())
	}
	l := fleet.Guarded(t, urls, period, redlock.WithTTL(period), redlock.WithPrefix("app:"))
	fleet.Eventually(t, "five healthy nodes", func() bool { return fleet.Healthy(t, l) })
	for _, n := range l.Status(t.Context()) {
		if n.Persistence != "no append-only file" || n.EvictionPolicy != "noeviction" || n.MaxMemory != 256<<20 {
			t.Errorf("got %+v", n)
		}
	}
	k, err := l.Lock(t.Context(), "job")
	fleet.Must(t, err)
	fleet.Must(t, f.Nodes[4].Restart())
	fleet.Must(t, k.Extend(t.Context()))
	fleet.Eventually(t, "five healthy nodes again", func() bool { return fleet.Healthy(t, l) })
	fleet.Must(t, k.Unlock())
}

// The probes of the manifests take a master for alive that answers anything, also that it wants a password. They take
// one that is frozen for dead.
func TestTheProbesTellAliveFromDead(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("redis-cli"); err != nil {
		t.Skip("it needs redis-cli (Debian: apt-get install redis-tools)")
	}
	all := readManifests(t)
	n := startAsInPods(t, all).Nodes[0]
	host, port, err := net.SplitHostPort(n.Addr())
	fleet.Must(t, err)
	redis := all.container(t, "StatefulSet", "redis")
	alive, ready := redis.LivenessProbe.Exec.Command, redis.ReadinessProbe.Exec.Command
	if !slices.Equal(alive, ready) || alive[0] != "redis-cli" {
		t.Fatalf("got the probes %q and %q, want one command of redis-cli", alive, ready)
	}
	answers := func(timeout time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		args := append([]string{"-h", host, "-p", port}, alive[1:]...)
		out, err := exec.CommandContext(ctx, alive[0], args...).CombinedOutput()
		t.Logf("redis-cli: %s%v", out, err)
		return err
	}
	fleet.Must(t, answers(time.Minute))
	fleet.Must(t, n.Pause())
	fleet.Eventually(t, "a frozen master is dead", func() bool { return answers(time.Second) != nil })
	fleet.Must(t, n.Resume())
	fleet.Must(t, answers(time.Minute))
}

// What a master could do to its machine, by systemd's own account: 10 is everything.
func TestTheUnitIsHardened(t *testing.T) {
	t.Parallel()
	const unit = "../../docs/deploy/redlock-redis.service"
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", "security", "--offline=true", "--threshold=15", unit).
		CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) || bytes.Contains(out, []byte("unrecognized option")) {
		t.Skip("it needs systemd-analyze, from 250 on")
	}
	if err != nil {
		t.Errorf("%v, want 1.5 or less of 10\n%s", err, out)
	}
}
