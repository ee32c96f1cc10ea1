package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mutant is one deliberate bug.
type mutant struct {
	name    string
	changes []change
	// test names the test that must notice, where the simulation cannot: see why. It is one of the root package's, or of
	// another as in "internal/token.TestMedian".
	test string
	why  string
}

// where returns the package of the test, and its name there.
func (m mutant) where() (dir, test string) {
	if dir, test, ok := strings.Cut(m.test, "."); ok {
		return dir, test
	}
	return ".", m.test
}

// change replaces a text that stands in a file exactly once.
type change struct{ file, before, after string }

// overlay writes the changed files into dir and returns the file that tells the compiler of them.
func (m mutant) overlay(root, dir string) (string, error) {
	texts := map[string]string{}
	for _, c := range m.changes {
		path := filepath.Join(root, c.file)
		if _, ok := texts[path]; !ok {
			source, err := os.ReadFile(path)
			if err != nil {
				return "", err
			}
			texts[path] = string(source)
		}
		if n := strings.Count(texts[path], c.before); n != 1 {
			return "", fmt.Errorf(
				"%s has the text that this mutant replaces %d times, want once: bring the list up to date\n%s", c.file, n, c.before,
			)
		}
		texts[path] = strings.Replace(texts[path], c.before, c.after, 1)
	}
	replace := map[string]string{}
	for path, text := range texts {
		replace[path] = filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(replace[path], []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, list, 0o600)
}
