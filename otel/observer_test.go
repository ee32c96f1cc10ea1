package redlockotel_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/cases"
	redlockotel "github.com/quorumlock/redlock/otel"
	"github.com/quorumlock/redlock/redlocktest"
)

// encoder writes attributes as key=value, in the order of the keys.
var encoder = attribute.DefaultEncoder()

// recorded is a Locker whose metrics and spans are kept.
type recorded struct {
	*redlock.Locker
	masters *redlocktest.Cluster
	metrics *sdkmetric.ManualReader
	spans   *tracetest.SpanRecorder
	tracers *sdktrace.TracerProvider
}

func record(t *testing.T, opts ...redlockotel.Option) *recorded {
	t.Helper()
	r := &recorded{
		masters: redlocktest.New(t, 3), metrics: sdkmetric.NewManualReader(), spans: tracetest.NewSpanRecorder(),
	}
	r.tracers = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r.spans))
	observe, err := redlockotel.Observer(append(opts,
		redlockotel.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(r.metrics))),
		redlockotel.WithTracerProvider(r.tracers))...)
	if err != nil {
		t.Fatal(err)
	}
	r.Locker, err = redlock.New(r.masters.URLs(), redlock.WithObserver(observe), redlock.WithTTL(3*time.Second),
		redlock.WithNodeTimeout(5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// life has a Locker go through everything, and closes it.
func (r *recorded) life(t *testing.T) {
	t.Helper()
	ctx, span := r.tracers.Tracer("test").Start(t.Context(), "caller")
	defer span.End()
	lock := cases.Must(r.Lock(ctx, "stock:4711"))(t)
	if _, err := r.TryLock(ctx, "stock:4711"); !errors.Is(err, redlock.ErrTaken) {
		t.Fatalf("got %v, want ErrTaken", err)
	}
	cases.NoError(t, lock.Extend(ctx))
	cases.NoError(t, lock.Unlock())
	permit := cases.Must(r.Semaphore("pool:a", 2).Acquire(ctx))(t)
	cases.NoError(t, permit.Unlock())
	lost := cases.Must(r.Lock(ctx, "job"))(t)
	r.masters.Kill(0, 1)
	<-lost.Done()
	r.Close()
}

// series returns a value for each time series: a sum, a gauge or a histogram's count.
func (r *recorded) series(t *testing.T) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	cases.NoError(t, r.metrics.Collect(context.Background(), &all))
	found := map[string]float64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Description == "" || m.Unit == "" {
				t.Errorf("%s has no description or no unit", m.Name)
			}
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					found[m.Name+" "+p.Attributes.Encoded(encoder)] = float64(p.Value)
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					found[m.Name+" "+p.Attributes.Encoded(encoder)] = p.Value
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					found[m.Name+" "+p.Attributes.Encoded(encoder)] = float64(p.Count)
				}
			default:
				t.Errorf("%s: a %T", m.Name, data)
			}
		}
	}
	return found
}

func TestMetrics(t *testing.T) {
	r := record(t, redlockotel.WithGroups(func(name string) string {
		group, _, _ := strings.Cut(name, ":")
		return group
	}))
	r.life(t)
	got := r.series(t)
	for series, want := range map[string]float64{
		"redlock.attempt.duration redlock.group=stock,redlock.outcome=granted": 1,
		"redlock.attempt.duration redlock.group=stock,redlock.outcome=taken":   1,
		"redlock.attempt.duration redlock.group=job,redlock.outcome=granted":   1,
		"redlock.wait.duration redlock.group=stock,redlock.outcome=granted":    1,
		"redlock.wait.duration redlock.group=stock,redlock.outcome=taken":      1,
		"redlock.holds redlock.group=stock":                                    0,
		"redlock.holds redlock.group=job":                                      0,
		"redlock.hold.duration redlock.end=unlocked,redlock.group=stock":       1,
		"redlock.hold.duration redlock.end=lost,redlock.group=job":             1,
		"redlock.hold.duration redlock.end=unlocked,redlock.group=pool":        1,
		"redlock.lost redlock.group=job":                                       1,
		"redlock.lost redlock.group=stock":                                     0,
		"redlock.lost ":                                                        0,
		"redlock.job.runs redlock.outcome=exhausted":                           0,
		"redlock.events.dropped ":                                              0,
		"redlock.renewal.duration redlock.group=stock,redlock.outcome=granted": 1,
	} {
		if value, ok := got[series]; !ok || value != want {
			t.Errorf("%s: got %v, %t, want %v", series, value, ok, want)
		}
	}
	if got["redlock.renewal.duration redlock.group=job,redlock.outcome=no_quorum"] == 0 {
		t.Error("no renewal that failed was counted")
	}
	for i := range 3 {
		host, port, _ := strings.Cut(r.masters.Addr(i), ":")
		at := fmt.Sprintf("server.address=%s,server.port=%s", host, port)
		if _, there := got["redlock.repairs "+at]; !there {
			t.Errorf("%s: no repairs are counted", at)
		}
		up, down := 0.0, 1.0
		if i == 2 {
			up, down = 1, 0
		}
		state := "redlock.node.state redlock.state="
		if got[state+"up,"+at] != up || got[state+"down,"+at] != down || got[state+"abstaining,"+at] != 0 {
			t.Errorf("node %d: got %v up, %v down, want %v and %v", i, got[state+"up,"+at], got[state+"down,"+at], up, down)
		}
		if got["redlock.node.round_trip "+at] == 0 {
			t.Errorf("node %d: no round trip", i)
		}
		if _, ok := got["redlock.node.clock_offset "+at]; !ok {
			t.Errorf("node %d: no clock offset", i)
		}
	}
	if t.Failed() {
		for _, series := range slices.Sorted(maps.Keys(got)) {
			t.Logf("%s = %v", series, got[series])
		}
	}
}

// Who waits is counted while it waits.
func TestWaiting(t *testing.T) {
	r := record(t, redlockotel.WithGroups(func(string) string { return "jobs" }))
	cases.Must(r.Lock(t.Context(), "job"))(t)
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	for range 3 {
		waiting.Go(func() { _, _ = r.Lock(ctx, "job") })
	}
	const series = "redlock.waiting redlock.group=jobs"
	for deadline := time.Now().Add(time.Minute); r.series(t)[series] != 3; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%v calls wait, want 3", r.series(t)[series])
		}
	}
	cancel()
	waiting.Wait()
	r.Close()
	if n, ok := r.series(t)[series]; !ok || n != 0 {
		t.Errorf("%v calls wait at the end, %t", n, ok)
	}
}

// What becomes of jobs is counted, and timed.
func TestJobs(t *testing.T) {
	r := record(t, redlockotel.WithGroups(func(name string) string { return name }))
	fails := errors.New("fails")
	call := func(name string, fn func(context.Context, *redlock.Lock) error, want error) {
		t.Helper()
		if err := r.Once(t.Context(), name, fn, redlock.WithMaxRuns(1)); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
	}
	succeed := func(context.Context, *redlock.Lock) error { return nil }
	fail := func(context.Context, *redlock.Lock) error { return fails }
	call("ok", succeed, nil)
	call("ok", succeed, redlock.ErrAlreadyRun)
	call("bad", fail, fails)
	call("bad", fail, redlock.ErrRunsExhausted)
	call("nests", func(ctx context.Context, _ *redlock.Lock) error { // its own run is the one that failed
		return r.Once(ctx, "ok", succeed)
	}, redlock.ErrAlreadyRun)
	call("tries", func(ctx context.Context, _ *redlock.Lock) error {
		return r.Do(ctx, "other", func(context.Context, *redlock.Lock) error {
			return r.TryOnce(t.Context(), "other", succeed)
		})
	}, redlock.ErrTaken)
	call("unsure", func(context.Context, *redlock.Lock) error { r.masters.Pause(0, 1); return nil }, redlock.ErrNoQuorum)
	r.masters.Resume(0, 1)
	call("loses", func(ctx context.Context, _ *redlock.Lock) error {
		r.masters.Kill(0, 1)
		<-ctx.Done()
		return nil
	}, redlock.ErrLost)
	r.Close()
	got := r.series(t)
	for of, want := range map[string]float64{
		"ok,redlock.outcome=succeeded": 1, "ok,redlock.outcome=already_run": 2, "nests,redlock.outcome=failed": 1,
		"bad,redlock.outcome=failed": 1, "bad,redlock.outcome=exhausted": 1, "tries,redlock.outcome=failed": 1,
		"other,redlock.outcome=not_run": 1, "unsure,redlock.outcome=unknown": 1, "loses,redlock.outcome=lost": 1,
	} {
		counted, timed := got["redlock.job.runs redlock.group="+of], got["redlock.job.duration redlock.group="+of]
		if counted != want || timed != want {
			t.Errorf("%s: got %v runs and %v durations, want %v of each", of, counted, timed, want)
		}
	}
	if t.Failed() {
		for _, series := range slices.Sorted(maps.Keys(got)) {
			t.Logf("%s = %v", series, got[series])
		}
	}
}

func TestSpans(t *testing.T) {
	r := record(t)
	r.life(t)
	var caller sdktrace.ReadOnlySpan
	var got []string
	for _, s := range r.spans.Ended() {
		if s.Name() == "caller" {
			caller = s
		}
	}
	for _, s := range r.spans.Ended() {
		if s == caller {
			continue
		}
		attrs := map[string]string{}
		for _, a := range s.Attributes() {
			attrs[string(a.Key)] = a.Value.String()
		}
		if s.Parent().SpanID() != caller.SpanContext().SpanID() {
			t.Errorf("%s is no child of the caller's span", s.Name())
		}
		if took := s.EndTime().Sub(s.StartTime()); took <= 0 || took > time.Minute {
			t.Errorf("%s: took %v", s.Name(), took)
		}
		if failed := s.Status().Code == codes.Error; failed != (attrs["error.type"] != "") ||
			failed != (s.Status().Description != "") {
			t.Errorf("%s: got the status %v and error.type %q", s.Name(), s.Status(), attrs["error.type"])
		}
		if (attrs["error.type"] == "taken") != (len(s.Events()) == 3) {
			t.Errorf("%s: %d nodes said something", s.Name(), len(s.Events()))
		}
		said := fmt.Sprintf("%s %s %s%s token=%t", s.Name(), attrs["redlock.name"], attrs["redlock.end"],
			attrs["error.type"], attrs["redlock.token"] != "")
		got = append(got, strings.TrimSpace(said))
	}
	want := []string{
		"redlock lock stock:4711  token=true",
		"redlock lock stock:4711 taken token=false",
		"redlock hold stock:4711 unlocked token=true",
		"redlock acquire pool:a  token=true",
		"redlock hold pool:a unlocked token=true",
		"redlock lock job  token=true",
		"redlock hold job lostlost token=true",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A name and what an error quotes may be any bytes; the protocol refuses a batch in which a text is not UTF-8.
func TestAttributesAreUTF8(t *testing.T) {
	const name = "job\xff\xc0"
	r := record(t, redlockotel.WithGroups(func(name string) string { return name }))
	ctx := t.Context()
	lock := cases.Must(r.Lock(ctx, name))(t)
	if _, err := r.TryLock(ctx, name); !errors.Is(err, redlock.ErrTaken) {
		t.Fatalf("got %v, want ErrTaken", err)
	}
	cases.NoError(t, lock.Unlock())
	r.Close()
	for series := range r.series(t) {
		if !utf8.ValidString(series) {
			t.Errorf("the series %q", series)
		}
	}
	spans := r.spans.Ended()
	if len(spans) == 0 {
		t.Error("no spans")
	}
	for _, s := range spans {
		attrs := s.Attributes()
		for _, e := range s.Events() {
			attrs = append(attrs, e.Attributes...)
		}
		for _, a := range attrs {
			value := a.Value.String()
			if !utf8.ValidString(value) || a.Key == "redlock.name" && value != `"job\xff\xc0"` {
				t.Errorf("%s: %s is %q", s.Name(), a.Key, value)
			}
		}
		if text := s.Status().Description; !utf8.ValidString(text) {
			t.Errorf("%s: the status %q", s.Name(), text)
		}
	}
}
