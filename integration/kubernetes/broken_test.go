package kubernetes_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The check of the manifests finds what it is there for: each case is one of them with one mistake.
func TestBrokenManifestsAreRejected(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, old, now, says string }{
		"unknown field": {
			"masters.yaml", "  minReadySeconds: 35\n", "  minReadySecond: 35\n", `unknown field "spec.minReadySecond"`,
		},
		"field at the wrong place": {
			"masters.yaml", "      enableServiceLinks: false\n", "          enableServiceLinks: false\n", "yaml: ",
		},
		"field of another object": {
			"masters.yaml", "  serviceName: redis\n", "  serviceName: redis\n  maxUnavailable: 1\n",
			`unknown field "spec.maxUnavailable"`,
		},
		"field given twice": {
			"masters.yaml", "  replicas: 5\n", "  replicas: 5\n  replicas: 4\n", `"replicas" already set in map`,
		},
		"wrong type": {
			"masters.yaml", "  replicas: 5\n", "  replicas: five\n", "cannot unmarshal string into Go struct field",
		},
		"label that is no text": {
			"doctor.yaml", "redlock-client: \"true\"", "redlock-client: true", "cannot unmarshal bool",
		},
		"required field missing": {
			"masters.yaml", "          image: redis:8-alpine\n", "", "image: Required value",
		},
		"selector that does not match": {
			"masters.yaml", "  selector:\n    matchLabels:\n      app.kubernetes.io/name: redlock-redis\n  template:\n",
			"  selector:\n    matchLabels:\n      app.kubernetes.io/name: redis\n  template:\n",
			"`selector` does not match template `labels`",
		},
		"quantity": {"masters.yaml", "cpu: 250m", "cpu: 250mm", "unable to parse quantity's suffix"},
		"request above the limit": {
			"masters.yaml", "              memory: 512Mi\n            # Twice", "              memory: 1Gi\n            # Twice",
			"must be less than or equal to memory limit",
		},
		"volume that is not there": {
			"masters.yaml", "            - name: config\n", "            - name: conf\n", "volumeMounts[0].name: Not found",
		},
		"port that is too large": {
			"masters.yaml", "containerPort: 6379", "containerPort: 66379", "must be between 1 and 65535",
		},
		"kind that is not there": {"masters.yaml", "kind: StatefulSet", "kind: StatefulSets", `no kind "StatefulSets"`},
		"version of long ago":    {"masters.yaml", "policy/v1\n", "policy/v1beta2\n", `no kind "PodDisruptionBudget"`},
		"budget of both kinds": {
			"masters.yaml", "  maxUnavailable: 1\n", "  maxUnavailable: 1\n  minAvailable: 4\n", "cannot be both set",
		},
		"probe without an action": {
			"masters.yaml", "            exec:\n              command: [\"redis-cli\", \"ping\"]\n            initial",
			"            initial", "must specify a handler type",
		},
		"job that starts again": {
			"doctor.yaml", "restartPolicy: Never", "restartPolicy: Always", `valid values: "OnFailure", "Never"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join(directory, c.file))
			must(t, err)
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
