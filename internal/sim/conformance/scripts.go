package conformance

import (
	"os"
	"path/filepath"
	"strings"
)

// ReadScripts returns the sources of the *.lua files in a directory by their names without the ending.
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
	return scripts, nil
}

// Scripts are the rows about the library's own scripts, by the script's name.
func Scripts() map[string][]Case {
	return map[string][]Case{
		"acquire": acquireCases,
		"raise":   raiseCases,
		"extend":  extendCases,
		"release": releaseCases,
		"adopt":   adoptCases,
		"revert":  revertCases,
	}
}
