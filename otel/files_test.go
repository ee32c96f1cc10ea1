package redlockotel_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/cases"
	redlockotel "github.com/quorumlock/redlock/otel"
	"github.com/quorumlock/redlock/redlocktest"
)

// exported returns what Prometheus gets: the labels by the metric's name, as queries write it.
func exported(t *testing.T) map[string][]string {
	t.Helper()
	registry := prometheus.NewRegistry()
	reader := cases.Must(exporter.New(exporter.WithRegisterer(registry)))(t)
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	observe, err := redlockotel.Observer(redlockotel.WithMeterProvider(provider),
		redlockotel.WithGroups(func(name string) string { return name }))
	if err != nil {
		t.Fatal(err)
	}
	masters := redlocktest.New(t, 3)
	repaired := make(chan struct{}, 100)
	locker, err := redlock.New(masters.URLs(), redlock.WithTTL(3*time.Second), redlock.WithNodeTimeout(5*time.Second),
		redlock.WithObserver(func(ev redlock.Event) {
			observe(ev)
			if ev.Kind == redlock.EventRepair {
				repaired <- struct{}{}
			}
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer locker.Close()
	cases.NoError(t, locker.Once(t.Context(), "job", func(context.Context, *redlock.Lock) error { return nil }))
	lost := cases.Must(locker.Lock(t.Context(), "lost"))(t)
	// Waits for all nodes, behind the acquisition: else what is emptied may get the lock afterwards, and need no repair.
	cases.Must(locker.Inspect(t.Context(), "lost"))(t)
	masters.Empty(0)
	select {
	case <-repaired:
	case <-time.After(time.Minute):
		t.Fatal("a node that was emptied was not repaired")
	}
	masters.Kill(0, 1)
	<-lost.Done()
	locker.Close()

	families := cases.Must(registry.Gather())(t)
	found := make(map[string][]string)
	for _, f := range families {
		labels := []string{"job", "instance", "le"} // Prometheus's own
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName())
			}
		}
		for _, suffix := range []string{"", "_bucket", "_count", "_sum"} {
			if histogram := f.GetMetric()[0].GetHistogram() != nil; histogram == (suffix != "") {
				found[f.GetName()+suffix] = labels
			}
		}
	}
	return found
}

var (
	metricName = regexp.MustCompile(`\bredlock_\w+`)
	labelName  = regexp.MustCompile(`(\w+)\s*(?:=|!=|=~|!~)\s*"|\bby \(([^)]*)\)`)
)

// The dashboard and the alerts name metrics and labels that there are.
func TestFilesMatchTheExporter(t *testing.T) {
	all := exported(t)
	labels := map[string]bool{}
	for _, some := range all {
		for _, l := range some {
			labels[l] = true
		}
	}
	dir := filepath.Join("..", "docs", "observability")
	check := func(file, expr string) {
		for _, name := range metricName.FindAllString(expr, -1) {
			if all[name] == nil && !labels[name] {
				t.Errorf("%s: there is no %s, in %s", file, name, expr)
			}
		}
		for _, m := range labelName.FindAllStringSubmatch(expr, -1) {
			for l := range strings.SplitSeq(m[1]+m[2], ",") {
				if l = strings.TrimSpace(l); l != "" && !labels[l] {
					t.Errorf("%s: there is no label %s, in %s", file, l, expr)
				}
			}
		}
	}

	board := readBoard(t, filepath.Join(dir, "dashboard.json"))
	var used []string
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			check("dashboard.json, "+p.Title, target.Expr)
			used = append(used, metricName.FindAllString(target.Expr, -1)...)
		}
	}
	for _, v := range board.Templating.List {
		check("dashboard.json, variable "+v.Name, v.Definition)
	}
	rules := cases.Must(os.ReadFile(filepath.Join(dir, "alerts.yaml")))(t)
	check("alerts.yaml", string(rules))
	used = append(used, metricName.FindAllString(string(rules), -1)...)
	if len(board.Panels) < 10 || len(used) < 30 {
		t.Errorf("%d panels and %d metrics: this has read too little", len(board.Panels), len(used))
	}

	// And nothing is exported that nobody is told of.
	page := cases.Must(os.ReadFile(filepath.Join("..", "docs", "observability.md")))(t)
	for name := range all {
		base := name
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			base = strings.TrimSuffix(base, suffix)
		}
		if strings.HasPrefix(base, "redlock_") && !strings.Contains(string(page), "`"+base+"`") {
			t.Errorf("docs/observability.md does not tell of %s", base)
		}
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(metricName.FindAllString(string(page), -1)))) {
		if _, histogram := all[name+"_count"]; !histogram && all[name] == nil && !labels[name] {
			t.Errorf("docs/observability.md: there is no %s", name)
		}
	}
}
