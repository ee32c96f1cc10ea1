package conformance

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
)

// begunBy names the files that are put before others, as the library does.
var begunBy = map[string][]string{
	"release":      {"free", "readers", "queue", "watchers"},
	"enqueue":      {"revoked", "label", "readers", "queue", "join"},
	"read":         {"revoked", "label", "readers", "queue", "join"},
	"keep_reading": {"revoked", "readers"},
	"extend":       {"revoked"},
	"revert":       {"revoked", "readers", "queue"},
	"stop_reading": {"readers", "queue", "watchers"},
	"acquire":      {"revoked", "usual", "label", "readers", "queue", "join"},
	"survey":       {"readers", "queue"},
	"once":         {"register"},
	"inspect":      {"register", "label", "value", "watchers"},
	"acquire_all":  {"revoked", "label"},
	"adopt":        {"revoked", "label"},
	"revoke":       {"revoked", "readers", "queue", "watchers", "value"},

	// These have no file of their own name.
	"extend_valued":  {"revoked", "watchers", "value", "keep_value", "extend"},
	"release_valued": {"value", "drop_value", "readers", "queue", "watchers", "release"},
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
	texts := maps.Clone(scripts)
	for name, begin := range begunBy {
		var source strings.Builder
		for _, part := range begin {
			source.WriteString(texts[part])
			if begunBy[part] == nil {
				delete(scripts, part)
			}
		}
		scripts[name] = source.String() + texts[name]
	}
	return scripts, nil
}
