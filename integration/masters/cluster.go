package masters

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"golang.org/x/sync/errgroup"

	"github.com/quorumlock/redlock/internal/cases"
)

// Launch starts n masters at once. When one fails, none is left.
func Launch(ctx context.Context, p Provider, n int, spec Spec) ([]*Node, error) {
	nodes := make([]*Node, n)
	var g errgroup.Group
	for i := range nodes {
		g.Go(func() (err error) {
			nodes[i], err = p.Launch(ctx, spec)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, errors.Join(err, Remove(nodes))
	}
	return nodes, nil
}

// Remove removes masters; nil ones are skipped.
func Remove(nodes []*Node) error {
	var g errgroup.Group
	for _, n := range nodes {
		if n != nil {
			g.Go(n.Remove)
		}
	}
	return g.Wait()
}

// Start starts n masters for the length of a test, which fails where they cannot be had.
func Start(tb testing.TB, p Provider, n int, spec Spec) []*Node {
	tb.Helper()
	nodes := cases.Must(Launch(tb.Context(), p, n, spec))(tb)
	tb.Cleanup(func() {
		if tb.Failed() {
			Report(tb, nodes)
		}
		if err := Remove(nodes); err != nil {
			tb.Error(err)
		}
	})
	return nodes
}

// Report logs what the masters printed.
func Report(tb testing.TB, nodes []*Node) {
	tb.Helper()
	for i, n := range nodes {
		tb.Logf("master %d, %s, printed:\n%s", i, n.Addr(), n.Log())
	}
}

// URLs returns the nodes' URLs for redlock.New.
func URLs(nodes []*Node) []string {
	urls := make([]string, len(nodes))
	for i, n := range nodes {
		urls[i] = n.URL()
	}
	return urls
}

// kept are the library's own keys that stay on a node, or the beginnings of their names.
var kept = []string{
	"redlock:tokens", "redlock:node", "redlock:floor", "redlock:settings", "redlock:lists", "redlock:revoked",
	"redlock:label:", "redlock:clients:",
}

// Leftovers returns what is on the nodes, each with its address, and is no key of the library's own.
func Leftovers(nodes []*Node) (left []string, err error) {
	for _, n := range nodes {
		keys, err := redis.Strings(n.Do("KEYS", "*"))
		if err != nil {
			return nil, err
		}
		for _, k := range keys {
			if !slices.ContainsFunc(kept, func(own string) bool { return strings.HasPrefix(k, own) }) {
				left = append(left, n.addr+" "+k)
			}
		}
	}
	return left, nil
}
