package conformance

import (
	"os"
	"path/filepath"
	"strings"
)

// begunBy names the files that are put before others, as the library does.
var begunBy = map[string][]string{
	"release":      {"free", "readers", "propose", "queue", "watchers", "value"},
	"enqueue":      {"revoked", "label", "readers", "propose", "queue", "watchers", "join"},
	"read":         {"revoked", "label", "readers", "propose", "queue", "watchers", "join"},
	"raise":        {"propose", "watchers"},
	"keep_reading": {"revoked", "readers"},
	"extend":       {"revoked", "watchers", "value"},
	"revert":       {"revoked", "readers", "propose", "queue", "watchers"},
	"stop_reading": {"readers", "propose", "queue", "watchers"},
	"acquire":      {"revoked", "usual", "label", "readers", "propose", "queue", "watchers", "join"},
	"survey":       {"readers", "propose", "queue"},
	"once":         {"register"},
	"inspect":      {"register", "label", "value", "watchers"},
	"acquire_all":  {"revoked", "label", "watchers"},
	"adopt":        {"revoked", "label", "watchers"},
	"revoke":       {"revoked", "readers", "propose", "queue", "watchers", "value"},
}

// ReadScripts returns the sources of the scripts in a directory by their names without the ending.
func ReadScripts(dir string) (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.lua"))
	if err != nil {
		return nil, err
	}
	scripts := map[string]string{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		scripts[strings.TrimSuffix(filepath.Base(f), ".lua")] = string(b)
	}
	parts := map[string]bool{}
	for name, begin := range begunBy {
		var source strings.Builder
		for _, part := range begin {
			source.WriteString(scripts[part])
			parts[part] = true
		}
		scripts[name] = source.String() + scripts[name]
	}
	for part := range parts {
		delete(scripts, part)
	}
	return scripts, nil
}
