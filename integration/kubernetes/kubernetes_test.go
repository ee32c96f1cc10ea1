package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	podsecurity "k8s.io/pod-security-admission/api"
	securitypolicy "k8s.io/pod-security-admission/policy"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/cases"
)

// one returns the only manifest of its type.
func one[T any](t *testing.T, all []manifest) *T {
	t.Helper()
	found := each[T](all)
	if len(found) != 1 {
		t.Fatalf("got %d manifests %T, want one", len(found), new(T))
	}
	return found[0]
}

// each returns the manifests of that type.
func each[T any](all []manifest) (found []*T) {
	for _, m := range all {
		if o, is := m.object.(any).(*T); is {
			found = append(found, o)
		}
	}
	return found
}

// named returns the ConfigMap's or Secret's texts, by the names of its keys.
func named(t *testing.T, all []manifest, name string) map[string]string {
	t.Helper()
	for _, o := range each[corev1.ConfigMap](all) {
		if o.Name == name {
			return o.Data
		}
	}
	for _, o := range each[corev1.Secret](all) {
		if o.Name == name {
			return o.StringData
		}
	}
	t.Fatalf("no ConfigMap or Secret %q", name)
	return nil
}

func selects(t *testing.T, selector *metav1.LabelSelector, of map[string]string) bool {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	cases.NoError(t, err)
	return s.Matches(labels.Set(of))
}

// defaultGuard is the restart guard of a Locker that is not told one: the longest TTL that it takes.
func defaultGuard(t *testing.T) time.Duration {
	t.Helper()
	const guard = 30 * time.Second
	l, err := redlock.New([]string{"127.0.0.1:1"})
	cases.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for ttl, want := range map[time.Duration]bool{guard: false, guard + time.Millisecond: true} {
		_, err := l.TryLock(done, "job", redlock.WithTTL(ttl))
		if got := errors.Is(err, redlock.ErrInvalid); got != want {
			t.Fatalf("a TTL of %s: got %v, so the guard is not %s", ttl, err, guard)
		}
	}
	return guard
}

// An API server takes the manifests, and an administrator's rules for pods do.
func TestTheManifestsAreValid(t *testing.T) {
	t.Parallel()
	all := read(t)
	if len(all) < 8 {
		t.Errorf("got %v: this has read too little", all)
	}
	evaluator, err := securitypolicy.NewEvaluator(securitypolicy.DefaultChecks(), nil)
	cases.NoError(t, err)
	restricted := podsecurity.LevelVersion{Level: podsecurity.LevelRestricted, Version: podsecurity.LatestVersion()}
	for _, m := range all {
		if ns := m.meta.GetNamespace(); ns != "locks" && m.meta.GetName() != "locks" {
			t.Errorf("%v: got the namespace %q", m, ns)
		}
		if pod := template(m); pod != nil {
			verdict := securitypolicy.AggregateCheckResults(evaluator.EvaluatePod(restricted, &pod.ObjectMeta, &pod.Spec))
			if !verdict.Allowed {
				t.Errorf("%v: the level restricted forbids it: %s", m, verdict.ForbiddenDetail())
			}
		}
	}
}

// template returns what the manifest makes pods of, or nil.
func template(m manifest) *corev1.PodTemplateSpec {
	switch o := m.object.(type) {
	case *appsv1.StatefulSet:
		return &o.Spec.Template
	case *batchv1.Job:
		return &o.Spec.Template
	default:
		return nil
	}
}

// What docs/operations.md says of the masters.
func TestTheManifestsKeepTheirPromises(t *testing.T) {
	t.Parallel()
	all := read(t)
	set := one[appsv1.StatefulSet](t, all)
	pod := set.Spec.Template
	if got := *set.Spec.Replicas; got != 5 {
		t.Errorf("got %d replicas, want 5", got)
	}
	update := set.Spec.UpdateStrategy
	if update.Type != appsv1.RollingUpdateStatefulSetStrategyType ||
		update.RollingUpdate != nil && update.RollingUpdate.MaxUnavailable != nil {
		t.Errorf("got the update strategy %+v, want one master after the other", update)
	}
	for name, seconds := range map[string]int32{
		"minReadySeconds": set.Spec.MinReadySeconds, // what a rolling update looks at
		// What the eviction of a pod looks at: it takes no notice of minReadySeconds.
		"readinessProbe": pod.Spec.Containers[0].ReadinessProbe.InitialDelaySeconds,
	} {
		// A second by which the uptime may be wrong, and one until the process has started.
		if got, least := time.Duration(seconds)*time.Second, defaultGuard(t)+2*time.Second; got < least {
			t.Errorf("%s: got %s, want %s or more", name, got, least)
		}
	}
	if alive := pod.Spec.Containers[0].LivenessProbe; alive.PeriodSeconds*alive.FailureThreshold < 60 {
		t.Errorf("got the liveness probe %+v, which kills a master that is busy for less than a minute", alive)
	}
	apart := pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if len(apart) != 1 || apart[0].TopologyKey != corev1.LabelHostname || !selects(t, apart[0].LabelSelector, pod.Labels) {
		t.Errorf("got the anti-affinity %+v, want no two masters on one host", apart)
	}
	spread := pod.Spec.TopologySpreadConstraints
	if len(spread) != 1 || spread[0].TopologyKey != corev1.LabelTopologyZone || spread[0].MaxSkew != 1 ||
		!selects(t, spread[0].LabelSelector, pod.Labels) {
		t.Errorf("got the spread %+v, want even over the zones", spread)
	}
	budget := one[policyv1.PodDisruptionBudget](t, all)
	if most := budget.Spec.MaxUnavailable; most == nil || most.String() != "1" ||
		!selects(t, budget.Spec.Selector, pod.Labels) {
		t.Errorf("got the budget %+v, want one master at a time", budget.Spec)
	}
	service := one[corev1.Service](t, all) // no other: none that leads to any master
	if service.Spec.ClusterIP != corev1.ClusterIPNone || !service.Spec.PublishNotReadyAddresses ||
		set.Spec.ServiceName != service.Name ||
		!labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(pod.Labels)) {
		t.Errorf("got the Service %+v, want a name for each pod", service.Spec)
	}
	wall := one[networkingv1.NetworkPolicy](t, all).Spec
	if !selects(t, &wall.PodSelector, pod.Labels) || len(wall.Egress) != 0 || len(wall.PolicyTypes) != 2 {
		t.Errorf("got the network policy %+v, want that it guards the masters both ways", wall)
	}
	for _, port := range []string{service.Spec.Ports[0].TargetPort.String(), wall.Ingress[0].Ports[0].Port.String()} {
		if want := pod.Spec.Containers[0].Ports[0].Name; port != want {
			t.Errorf("got the port %q, want the master's, %q", port, want)
		}
	}
	doctor := one[batchv1.Job](t, all).Spec.Template
	for _, labels := range []map[string]string{nil, doctor.Labels} {
		if got := selects(t, wall.Ingress[0].From[0].PodSelector, labels); got != (labels != nil) {
			t.Errorf("a pod with the labels %v: got %v", labels, got)
		}
	}
}

// settings returns the lines of a Redis configuration that say something.
func settings(conf string) (lines []string) {
	for line := range strings.Lines(conf) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	return lines
}

// The configuration and the users are those of docs/deploy, which are explained and tested there.
func TestTheManifestsHaveTheDocumentedSettings(t *testing.T) {
	t.Parallel()
	all := read(t)
	for name, texts := range map[string]map[string]string{
		"redis.conf": named(t, all, "redis"), "users.acl": named(t, all, "redis-users"),
	} {
		file, err := os.ReadFile("../../docs/deploy/" + name)
		cases.NoError(t, err)
		got, want := settings(texts[name]), settings(string(file))
		if i := slices.Index(want, "bind 0.0.0.0"); i >= 0 {
			want[i] = "bind * -::*"
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	conf := settings(named(t, all, "redis")["redis.conf"])
	if !slices.Contains(conf, "maxmemory-policy noeviction") {
		t.Errorf("got %q, which may evict locks", conf)
	}
	for _, line := range conf {
		switch word, value, _ := strings.Cut(line, " "); word {
		case "replicaof", "slaveof", "cluster-enabled", "include":
			t.Errorf("got %q, want a master of its own", line)
		case "maxmemory":
			limit, most := one[appsv1.StatefulSet](t, all).Spec.Template.Spec.Containers[0].Resources.Limits, resource.Quantity{}
			cases.NoError(t, most.UnmarshalJSON([]byte(strings.Replace(value, "mb", "Mi", 1))))
			if limit.Memory().Value() < 2*most.Value() {
				t.Errorf("got %s of %s: the kernel may kill the master before it refuses", line, limit.Memory())
			}
		}
	}
}

// Every file, variable and URL that a pod gets is in the manifests.
func TestTheManifestsReferToWhatIsThere(t *testing.T) {
	t.Parallel()
	all := read(t)
	references := 0
	for _, m := range all {
		pod := template(m)
		if pod == nil {
			continue
		}
		for _, volume := range pod.Spec.Volumes {
			if volume.Projected == nil {
				continue
			}
			for _, source := range volume.Projected.Sources {
				references++
				if source.ConfigMap != nil {
					named(t, all, source.ConfigMap.Name)
				} else {
					named(t, all, source.Secret.Name)
				}
			}
		}
		for _, variable := range pod.Spec.Containers[0].Env {
			if from := variable.ValueFrom; from != nil {
				references++
				if key := from.SecretKeyRef; named(t, all, key.Name)[key.Key] == "" {
					t.Errorf("%v: %s: no %s in %s", m, variable.Name, key.Key, key.Name)
				}
			}
		}
	}
	if references != 3 {
		t.Errorf("found %d references, want 3: this test does not know all kinds", references)
	}

	set := one[appsv1.StatefulSet](t, all)
	redis := set.Spec.Template.Spec.Containers[0]
	mounted := ""
	for _, mount := range redis.VolumeMounts {
		if mount.Name == "config" {
			mounted = mount.MountPath
		}
	}
	if got, want := redis.Command[len(redis.Command)-1], mounted+"/redis.conf"; got != want {
		t.Errorf("got the configuration %s, want %s", got, want)
	}
	if conf := settings(named(t, all, "redis")["redis.conf"]); !slices.Contains(conf, "aclfile "+mounted+"/users.acl") {
		t.Errorf("got %q, want the users of %s", conf, mounted)
	}
	urls := doctorURLs(t, all)
	if len(urls) != int(*set.Spec.Replicas) {
		t.Errorf("got %d URLs, want %d", len(urls), *set.Spec.Replicas)
	}
	for i, url := range urls {
		want := fmt.Sprintf("@%s-%d.%s.%s.svc", set.Name, i, set.Spec.ServiceName, set.Namespace)
		if !strings.HasSuffix(url, want) {
			t.Errorf("got the URL %s, want …%s", url, want)
		}
	}
}

// doctorURLs returns the URLs that doctor gets, with the password in them: a variable is replaced where one that stands
// before it has that name.
func doctorURLs(t *testing.T, all []manifest) []string {
	t.Helper()
	known := map[string]string{}
	for _, v := range one[batchv1.Job](t, all).Spec.Template.Spec.Containers[0].Env {
		if v.ValueFrom != nil {
			known[v.Name] = named(t, all, v.ValueFrom.SecretKeyRef.Name)[v.ValueFrom.SecretKeyRef.Key]
			continue
		}
		known[v.Name] = regexp.MustCompile(`\$\((\w+)\)`).ReplaceAllStringFunc(v.Value, func(s string) string {
			return known[s[2:len(s)-1]]
		})
	}
	return strings.Fields(known["REDLOCK_NODES"])
}
