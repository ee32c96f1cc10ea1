// Package kubernetes_test checks the manifests of docs/deploy/kubernetes with the code that an API server runs. It is a
// module of its own, since that code is 50 MB of other modules: what tries the manifests on real masters
// (integration/deploy) does without.
package kubernetes_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/apps"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	appsvalidation "k8s.io/kubernetes/pkg/apis/apps/validation"
	"k8s.io/kubernetes/pkg/apis/batch"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	batchvalidation "k8s.io/kubernetes/pkg/apis/batch/validation"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/networking"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	networkingvalidation "k8s.io/kubernetes/pkg/apis/networking/validation"
	"k8s.io/kubernetes/pkg/apis/policy"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	policyvalidation "k8s.io/kubernetes/pkg/apis/policy/validation"

	"github.com/quorumlock/redlock/internal/cases"
)

// directory has the manifests.
const directory = "../../docs/deploy/kubernetes"

// manifest is one object, in the version in which it is written, with the API server's defaults.
type manifest struct {
	file   string
	object runtime.Object
	meta   metav1.Object
}

func (m manifest) String() string {
	return fmt.Sprintf("%s: %T %s", m.file, m.object, m.meta.GetName())
}

// read returns all manifests of the documentation.
func read(t *testing.T) []manifest {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(directory, "*.yaml"))
	cases.NoError(t, err)
	var all []manifest
	for _, file := range files {
		text, err := os.ReadFile(file)
		cases.NoError(t, err)
		some, err := parse(filepath.Base(file), text)
		cases.NoError(t, err)
		all = append(all, some...)
	}
	return all
}

// parse reads and validates manifests as an API server of Kubernetes 1.35 does when it is told to create them:
// strictly, with its defaults, and by its own rules. What the server rejects is an error.
func parse(file string, text []byte) ([]manifest, error) {
	strict := serializer.NewSerializerWithOptions(serializer.DefaultMetaFactory, legacyscheme.Scheme, legacyscheme.Scheme,
		serializer.SerializerOptions{Yaml: true, Strict: true})
	var all []manifest
	for documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		object, kind, err := strict.Decode(document, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if err := validate(object, kind); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, manifest{file, object, object.(metav1.Object)})
	}
}

// selectOwnPods does what the server does to a Job before it validates it.
func selectOwnPods(job *batch.Job) {
	job.UID = "c0ffee"
	own := map[string]string{batch.ControllerUidLabel: string(job.UID)}
	job.Spec.Selector = &metav1.LabelSelector{MatchLabels: own}
	if job.Spec.Template.Labels == nil {
		job.Spec.Template.Labels = map[string]string{}
	}
	maps.Copy(job.Spec.Template.Labels, map[string]string{
		batch.ControllerUidLabel: string(job.UID), batch.LegacyControllerUidLabel: string(job.UID),
		batch.JobNameLabel: job.Name, batch.LegacyJobNameLabel: job.Name,
	})
}

// validate returns why an API server rejects the object.
func validate(object runtime.Object, kind *schema.GroupVersionKind) error {
	legacyscheme.Scheme.Default(object)
	internal, err := legacyscheme.Scheme.UnsafeConvertToVersion(object, runtime.InternalGroupVersioner)
	if err != nil {
		return err
	}
	var found field.ErrorList
	switch o := internal.(type) {
	case *core.Namespace:
		found = corevalidation.ValidateNamespace(o)
	case *core.Service:
		o.Spec.ClusterIPs = []string{o.Spec.ClusterIP} // as the server does before it validates
		found = corevalidation.ValidateServiceCreate(o)
	case *core.ConfigMap:
		found = corevalidation.ValidateConfigMap(o)
	case *core.Secret:
		found = corevalidation.ValidateSecret(o)
	case *apps.StatefulSet:
		found = appsvalidation.ValidateStatefulSet(o, corevalidation.PodValidationOptions{})
	case *batch.Job:
		selectOwnPods(o)
		found = batchvalidation.ValidateJob(o, batchvalidation.JobValidationOptions{RequirePrefixedLabels: true})
	case *networking.NetworkPolicy:
		found = networkingvalidation.ValidateNetworkPolicy(o, networkingvalidation.NetworkPolicyValidationOptions{})
	case *policy.PodDisruptionBudget:
		found = policyvalidation.ValidatePodDisruptionBudget(o, policyvalidation.PodDisruptionBudgetValidationOptions{})
	default:
		return fmt.Errorf("%s: this test does not know its rules", kind)
	}
	return found.ToAggregate()
}

// Each stage of the check, and the rules for each kind, find what they are there for: each case is a manifest with one
// mistake.
func TestBrokenManifestsAreRejected(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, old, now, says string }{
		"unknown field":     {"masters.yaml", "minReadySeconds", "minReadySecond", `unknown field "spec.minReadySecond"`},
		"field given twice": {"masters.yaml", "replicas: 5", "replicas: 5\n  replicas: 4", `"replicas" already set in map`},
		"wrong type":        {"doctor.yaml", "redlock-client: \"true\"", "redlock-client: true", "cannot unmarshal bool"},
		"kind":              {"masters.yaml", "kind: StatefulSet", "kind: StatefulSets", `no kind "StatefulSets"`},
		"version":           {"masters.yaml", "policy/v1\n", "policy/v1beta2\n", `no kind "PodDisruptionBudget"`},
		"quantity":          {"masters.yaml", "cpu: 250m", "cpu: 250mm", "unable to parse quantity's suffix"},
		"Namespace":         {"masters.yaml", "name: locks", "name: Locks", "a lowercase RFC 1123 label"},
		"Service":           {"masters.yaml", "clusterIP: None", "clusterIP: none", "must be a valid IP address"},
		"ConfigMap":         {"masters.yaml", "redis.conf: |", "redis conf: |", "a valid config key"},
		"Secret":            {"masters.yaml", "users.acl: |", "users acl: |", "a valid config key"},
		"StatefulSet":       {"masters.yaml", "- name: config\n", "- name: conf\n", "volumeMounts[0].name: Not found"},
		"Job":               {"doctor.yaml", "Policy: Never", "Policy: Always", `valid values: "OnFailure", "Never"`},
		"NetworkPolicy":     {"masters.yaml", "protocol: TCP", "protocol: tcp", `Unsupported value: "tcp"`},
		"PodDisruptionBudget": {
			"masters.yaml", "maxUnavailable: 1", "maxUnavailable: 1\n  minAvailable: 4", "cannot be both set",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join(directory, c.file))
			cases.NoError(t, err)
			if !strings.Contains(string(text), c.old) {
				t.Fatalf("%s has no %q any more", c.file, c.old)
			}
			_, err = parse(c.file, []byte(strings.Replace(string(text), c.old, c.now, 1)))
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q", err, c.says)
			}
		})
	}
}
