package deploy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
)

// manifests are those of docs/deploy/kubernetes, by kind and name.
type manifests map[string]any

// decode reads one manifest as its kind says, and rejects what that does not know or what stands there twice.
func decode(text []byte) (key string, object any, err error) {
	var head metav1.TypeMeta
	if err := yaml.Unmarshal(text, &head); err != nil {
		return "", nil, err
	}
	kinds := map[string]any{
		"v1/Namespace": new(corev1.Namespace), "v1/Service": new(corev1.Service), "v1/ConfigMap": new(corev1.ConfigMap),
		"v1/Secret": new(corev1.Secret), "apps/v1/StatefulSet": new(appsv1.StatefulSet), "batch/v1/Job": new(batchv1.Job),
		"policy/v1/PodDisruptionBudget":      new(policyv1.PodDisruptionBudget),
		"networking.k8s.io/v1/NetworkPolicy": new(networkingv1.NetworkPolicy),
	}
	object = kinds[head.APIVersion+"/"+head.Kind]
	if object == nil {
		return "", nil, fmt.Errorf("%s/%s: no such kind", head.APIVersion, head.Kind)
	}
	err = yaml.UnmarshalStrict(text, object)
	return head.Kind + " " + object.(metav1.Object).GetName(), object, err
}

func readManifests(t *testing.T) manifests {
	t.Helper()
	all := manifests{}
	files, err := filepath.Glob("../../docs/deploy/kubernetes/*.yaml")
	fleet.Must(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		fleet.Must(t, err)
		for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
			key, object, err := decode(document)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			all[key] = object
		}
	}
	return all
}

// get returns a manifest by its kind and name.
func get[T any](t *testing.T, all manifests, key string) T {
	t.Helper()
	object, is := all[key].(T)
	if !is {
		t.Fatalf("there is no %s", key)
	}
	return object
}

// doctorURLs returns the URLs that doctor gets, with the password in them.
func (all manifests) doctorURLs(t *testing.T) []string {
	t.Helper()
	env := get[*batchv1.Job](t, all, "Job redlock-doctor").Spec.Template.Spec.Containers[0].Env
	if len(env) != 3 || env[1].Value != "app:" || env[2].Name != "REDLOCK_NODES" {
		t.Fatalf("got %+v, want the password, the prefix and the URLs", env)
	}
	from := env[0].ValueFrom.SecretKeyRef
	password := get[*corev1.Secret](t, all, "Secret "+from.Name).StringData[from.Key]
	password = strings.Replace(password, "CHANGE-ME", fleet.AppPassword, 1)
	return strings.Fields(strings.ReplaceAll(env[2].Value, "$("+env[0].Name+")", password))
}

// startAsInPods starts five masters with the configuration and the users of the manifests. Only the paths, the address
// and the port are others.
func startAsInPods(t *testing.T, all manifests) fleet.Fleet {
	t.Helper()
	conf := get[*corev1.ConfigMap](t, all, "ConfigMap redis").Data["redis.conf"]
	if !strings.Contains(conf, "aclfile /etc/redis/users.acl\n") {
		t.Fatalf("where are the users?\n%s", conf)
	}
	return fleet.StartSpec(t, 5, masters.Spec{
		Files: map[string]string{
			"redis.conf": strings.Replace(conf, "aclfile /etc/redis/users.acl\n", "", 1),
			"users.acl": fleet.WithPasswords(
				get[*corev1.Secret](t, all, "Secret redis-users").StringData["users.acl"]),
		},
		Args: []string{
			"--include", "{dir}/redis.conf", "--aclfile", "{dir}/users.acl", "--bind", "*", "--port", "{port}",
		},
		User: "admin", Password: fleet.AdminPassword, ClientUser: "app", ClientPassword: fleet.AppPassword,
	})
}

// What docs/operations.md says of the masters, and what holds of them together: the settings are those of docs/deploy,
// which are explained and tested there.
func TestTheManifestsKeepTheirPromises(t *testing.T) {
	t.Parallel()
	all := readManifests(t)
	set := get[*appsv1.StatefulSet](t, all, "StatefulSet redis")
	pod, redis := set.Spec.Template.Spec, set.Spec.Template.Spec.Containers[0]
	apart := pod.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0]
	for _, s := range []*metav1.LabelSelector{
		set.Spec.Selector, apart.LabelSelector,
		pod.TopologySpreadConstraints[0].LabelSelector,
		get[*policyv1.PodDisruptionBudget](t, all, "PodDisruptionBudget redis").Spec.Selector,
		&get[*networkingv1.NetworkPolicy](t, all, "NetworkPolicy redis").Spec.PodSelector,
		{MatchLabels: get[*corev1.Service](t, all, "Service redis").Spec.Selector},
	} {
		if !maps.Equal(s.MatchLabels, set.Spec.Template.Labels) {
			t.Errorf("got the selector %v, want the masters' labels, %v", s.MatchLabels, set.Spec.Template.Labels)
		}
	}
	// The restart guard is 30 s; a second by which the uptime may be wrong, and one until the process has started. An
	// eviction takes no notice of minReadySeconds.
	if least := int32(32); set.Spec.MinReadySeconds < least || redis.ReadinessProbe.InitialDelaySeconds < least {
		t.Errorf("got %d s and the probe %+v, want %d s", set.Spec.MinReadySeconds, redis.ReadinessProbe, least)
	}
	budget := get[*policyv1.PodDisruptionBudget](t, all, "PodDisruptionBudget redis").Spec.MaxUnavailable
	service, wall := get[*corev1.Service](t, all, "Service redis").Spec, get[*networkingv1.NetworkPolicy](
		t, all, "NetworkPolicy redis").Spec
	for promise, kept := range map[string]bool{
		"one master at a time":         budget.String() == "1",
		"a name for each pod":          service.ClusterIP == "None" && service.PublishNotReadyAddresses,
		"masters reach nobody":         len(wall.Egress) == 0 && len(wall.PolicyTypes) == 2,
		"only clients reach masters":   wall.Ingress[0].From[0].PodSelector.MatchLabels["redlock-client"] == "true",
		"no two on one host":           apart.TopologyKey == corev1.LabelHostname,
		"even over the zones":          pod.TopologySpreadConstraints[0].TopologyKey == corev1.LabelTopologyZone,
		"a busy master lives a minute": redis.LivenessProbe.PeriodSeconds*redis.LivenessProbe.FailureThreshold >= 60,
		"memory for twice maxmemory":   redis.Resources.Limits.Memory().Value() >= 512<<20,
	} {
		if !kept {
			t.Errorf("not kept: %s", promise)
		}
	}
	if urls := all.doctorURLs(t); len(urls) != 5 || *set.Spec.Replicas != 5 {
		t.Errorf("got %d URLs and %d replicas, want 5", len(urls), *set.Spec.Replicas)
	}
	for name, text := range map[string]string{
		"redis.conf": get[*corev1.ConfigMap](t, all, "ConfigMap redis").Data["redis.conf"],
		"users.acl":  get[*corev1.Secret](t, all, "Secret redis-users").StringData["users.acl"],
	} {
		file, err := os.ReadFile("../../docs/deploy/" + name)
		fleet.Must(t, err)
		got, want := settings(text), settings(strings.Replace(string(file), "bind 0.0.0.0", "bind * -::*", 1))
		if !slices.Equal(got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	for _, text := range []string{"spec:\n  replica: 5", "spec:\n  replicas: 5\n  replicas: 4"} {
		if _, _, err := decode([]byte("apiVersion: apps/v1\nkind: StatefulSet\n" + text)); err == nil {
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
	redis := get[*appsv1.StatefulSet](t, all, "StatefulSet redis").Spec.Template.Spec.Containers[0]
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
