package deploy_test

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
	"github.com/quorumlock/redlock/internal/cases"
)

// manifests are those of docs/deploy/kubernetes: each part as fmt prints it, by its path from the kind and the name on.
type manifests map[string]string

const (
	stateful = "StatefulSet redis/spec"
	pod      = stateful + "/template/spec"
	apart    = pod + "/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution/0"
	master   = pod + "/containers/0"
)

//go:embed testdata/kinds.yaml
var kindsFile []byte

// read reads a manifest, and rejects a key that stands there twice, and what testdata/kinds.yaml does not know.
func (all manifests) read(manifest []byte) error {
	var kinds, object map[string]any
	if err := errors.Join(yaml.Unmarshal(kindsFile, &kinds), yaml.Unmarshal(manifest, &object)); err != nil {
		return err
	}
	metadata, _ := object["metadata"].(map[string]any)
	known := kinds[fmt.Sprint(object["apiVersion"], "/", object["kind"])]
	return all.add(fmt.Sprint(object["kind"], " ", metadata["name"]), known, object)
}

func (all manifests) add(path string, known, got any) (err error) {
	if all[path] = fmt.Sprint(got); known == nil || reflect.TypeOf(got) != reflect.TypeOf(known) {
		return fmt.Errorf("%s: testdata/kinds.yaml knows no such %T: %v", path, got, got)
	}
	switch known := known.(type) {
	case map[string]any:
		for name, value := range got.(map[string]any) {
			err = errors.Join(err, all.add(path+"/"+name, cmp.Or(known[name], known["*"]), value))
		}
	case []any:
		for i, value := range got.([]any) {
			err = errors.Join(err, all.add(fmt.Sprint(path, "/", i), known[0], value))
		}
	case string:
		if !regexp.MustCompile(known).MatchString(got.(string)) {
			err = fmt.Errorf("%s: got %q, want %s", path, got, known)
		}
	}
	return err
}

func readManifests(t *testing.T) manifests {
	t.Helper()
	all := manifests{}
	files := cases.Must(filepath.Glob("../../docs/deploy/kubernetes/*.yaml"))(t)
	for _, file := range files {
		text := cases.Must(os.ReadFile(file))(t)
		for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
			if err := all.read(document); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
		}
	}
	return all
}

// doctorURLs returns the URLs that doctor gets, with the password in them.
func (all manifests) doctorURLs(t *testing.T) []string {
	t.Helper()
	const env = "Job redlock-doctor/spec/template/spec/containers/0/env"
	const from = env + "/0/valueFrom/secretKeyRef/"
	password := all["Secret "+all[from+"name"]+"/stringData/"+all[from+"key"]]
	text := strings.ReplaceAll(all[env+"/2/value"], "$("+all[env+"/0/name"]+")", password)
	urls := strings.Fields(strings.ReplaceAll(text, "CHANGE-ME", fleet.AppPassword))
	if all[env+"/1/value"] != "app:" || all[env+"/2/name"] != "REDLOCK_NODES" || all[env+"/3"] != "" || len(urls) != 5 {
		t.Fatalf("got %s, want the password, the prefix and five URLs", all[env])
	}
	return urls
}

// startAsInPods starts five masters with the configuration and the users of the manifests. Only the paths, the address
// and the port are others.
func startAsInPods(t *testing.T, all manifests) fleet.Fleet {
	t.Helper()
	conf := all["ConfigMap redis/data/redis.conf"]
	if !strings.Contains(conf, "aclfile /etc/redis/users.acl\n") {
		t.Fatalf("where are the users?\n%s", conf)
	}
	return fleet.StartSpec(t, 5, masters.Spec{
		Files: map[string]string{
			"redis.conf": strings.Replace(conf, "aclfile /etc/redis/users.acl\n", "", 1),
			"users.acl":  fleet.WithPasswords(all["Secret redis-users/stringData/users.acl"]),
		},
		Args: []string{"--include", "{dir}/redis.conf", "--aclfile", "{dir}/users.acl", "--bind", "*", "--port", "{port}"},
		User: "admin", Password: fleet.AdminPassword, ClientUser: "app", ClientPassword: fleet.AppPassword,
	})
}

// What docs/operations.md says of the masters, and what holds of them together: the settings are those of docs/deploy,
// which are explained and tested there.
func TestTheManifestsKeepTheirPromises(t *testing.T) {
	t.Parallel()
	all := readManifests(t)
	labels := all[stateful+"/template/metadata/labels"]
	for path, want := range map[string]string{
		stateful + "/selector/matchLabels":                             labels,
		apart + "/labelSelector/matchLabels":                           labels,
		pod + "/topologySpreadConstraints/0/labelSelector/matchLabels": labels,
		"PodDisruptionBudget redis/spec/selector/matchLabels":          labels,
		"NetworkPolicy redis/spec/podSelector/matchLabels":             labels,
		"Service redis/spec/selector":                                  labels,
		"Service redis/spec/clusterIP":                                 "None", // a name for each pod
		"Service redis/spec/publishNotReadyAddresses":                  "true",
		"NetworkPolicy redis/spec/egress":                              "[]", // masters reach nobody
		"NetworkPolicy redis/spec/policyTypes":                         "[Ingress Egress]",
		"NetworkPolicy redis/spec/ingress/0/from/0/podSelector":        "map[matchLabels:map[redlock-client:true]]",
		"PodDisruptionBudget redis/spec/maxUnavailable":                "1",
		stateful + "/replicas":                                         "5",
		apart + "/topologyKey":                                         "kubernetes.io/hostname",
		pod + "/topologySpreadConstraints/0/topologyKey":               "topology.kubernetes.io/zone",
		master + "/resources/limits/memory":                            "512Mi", // twice maxmemory
	} {
		if got := all[path]; got != want || got == "" {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	// The restart guard is 30 s; a second by which the uptime may be wrong, and one until the process has started. An
	// eviction takes no notice of minReadySeconds. A busy master lives a minute.
	number := func(path string) int { n, _ := strconv.Atoi(all[path]); return n }
	if number(stateful+"/minReadySeconds") < 32 || number(master+"/readinessProbe/initialDelaySeconds") < 32 ||
		number(master+"/livenessProbe/periodSeconds")*number(master+"/livenessProbe/failureThreshold") < 60 {
		t.Errorf("got %s, want 32 s until the next master, and 60 until a busy one is restarted", all[stateful])
	}
	all.doctorURLs(t)
	for name, text := range map[string]string{
		"redis.conf": all["ConfigMap redis/data/redis.conf"],
		"users.acl":  all["Secret redis-users/stringData/users.acl"],
	} {
		file := cases.Must(os.ReadFile("../../docs/deploy/" + name))(t)
		got, want := settings(text), settings(strings.Replace(string(file), "bind 0.0.0.0", "bind * -::*", 1))
		if !slices.Equal(got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	for _, text := range []string{"spec:\n  replica: 5", "spec:\n  replicas: 5\n  replicas: 4"} {
		if err := (manifests{}).read([]byte("apiVersion: apps/v1\nkind: StatefulSet\n" + text)); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

// settings returns the lines of a configuration that say something.
func settings(conf string) (lines []string) {
	for line := range strings.Lines(conf) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	return lines
}

// Masters with the manifests' configuration, and a client with doctor's user and password: nothing is to be mended, and
// the lock outlives a master that comes back empty.
func TestTheManifestsRun(t *testing.T) {
	t.Parallel()
	all := readManifests(t)
	f := startAsInPods(t, all)
	var urls []string
	for i, in := range all.doctorURLs(t) {
		u := cases.Must(url.Parse(in))(t)
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
	k := cases.Must(l.Lock(t.Context(), "job"))(t)
	cases.NoError(t, f.Nodes[4].Restart())
	cases.NoError(t, k.Extend(t.Context()))
	fleet.Eventually(t, "five healthy nodes again", func() bool { return fleet.Healthy(t, l) })
	cases.NoError(t, k.Unlock())
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
	cases.NoError(t, err)
	for _, probe := range []string{"livenessProbe", "readinessProbe"} {
		if got := all[master+"/"+probe+"/exec/command"]; got != "[redis-cli ping]" {
			t.Fatalf("%s: got %s, want what is tried here", probe, got)
		}
	}
	answers := func(timeout time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		out, err := exec.CommandContext(ctx, "redis-cli", "-h", host, "-p", port, "ping").CombinedOutput()
		t.Logf("redis-cli: %s%v", out, err)
		return err
	}
	cases.NoError(t, answers(time.Minute))
	cases.NoError(t, n.Pause())
	fleet.Eventually(t, "a frozen master is dead", func() bool { return answers(time.Second) != nil })
	cases.NoError(t, n.Resume())
	cases.NoError(t, answers(time.Minute))
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
