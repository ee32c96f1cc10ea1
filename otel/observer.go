// Package redlockotel tells OpenTelemetry what happens to locks and nodes.
//
//	observe, err := redlockotel.Observer()
//	…
//	locker, err := redlock.New(nodes, redlock.WithObserver(observe))
//
// It records metrics and spans, through the global providers unless told otherwise. What they are, and
// what to watch, stands in docs/observability.md.
package redlockotel

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/quorumlock/redlock"
)

// scope names this instrumentation.
const scope = "github.com/quorumlock/redlock/otel"

// Option sets one thing.
type Option func(*observer)

// WithMeterProvider sets where metrics go. The default is the global provider.
func WithMeterProvider(p metric.MeterProvider) Option { return func(o *observer) { o.meters = p } }

// WithTracerProvider sets where spans go. The default is the global provider.
func WithTracerProvider(p trace.TracerProvider) Option { return func(o *observer) { o.tracers = p } }

// WithGroups gives metrics the attribute redlock.group: what group returns for the name of a lock, semaphore or job,
// such as "stock" for "stock:4711". There must be few groups, since each is a time series of its own. The default gives
// none: names are usually too many. Spans always have the name itself.
func WithGroups(group func(name string) string) Option { return func(o *observer) { o.group = group } }

// Observer returns an observer for [redlock.WithObserver]. One observer may serve several Lockers. The
// error is that of an instrument that the meter provider refuses.
func Observer(opts ...Option) (func(redlock.Event), error) {
	o := &observer{meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider()}
	o.states.of = make(map[string]string)
	for _, opt := range opts {
		opt(o)
	}
	o.tracer = o.tracers.Tracer(scope)
	if err := o.instruments.create(o.meters.Meter(scope)); err != nil {
		return nil, err
	}
	return o.observe, nil
}

type observer struct {
	instruments
	meters  metric.MeterProvider
	tracers trace.TracerProvider
	tracer  trace.Tracer
	group   func(name string) string // may be nil
	states  states
}

func (o *observer) observe(ev redlock.Event) {
	ctx := ev.Context
	if ctx == nil {
		ctx = context.Background()
	}
	if ev.Dropped > 0 {
		o.dropped.Add(ctx, int64(ev.Dropped))
	}
	switch ev.Kind {
	case redlock.EventAttempt:
		o.attempts.Record(ctx, ev.Duration.Seconds(), o.lock(ev, attribute.String("redlock.outcome", outcome(ev.Err))))
	case redlock.EventWait:
		change := int64(1)
		if ev.Duration > 0 { // it has ended: the event never comes without the other one
			change = -1
		}
		o.waiting.Add(ctx, change, o.lock(ev))
	case redlock.EventAcquire:
		o.waits.Record(ctx, ev.Duration.Seconds(), o.lock(ev, attribute.String("redlock.outcome", outcome(ev.Err))))
		if ev.Err == nil {
			o.held.Add(ctx, 1, o.lock(ev))
			o.lost.Add(ctx, 0, o.lock(ev)) // the group's series, before its first loss
		}
		o.span(ctx, "redlock "+ev.Op, ev)
	case redlock.EventRenew:
		o.renewals.Record(ctx, ev.Duration.Seconds(), o.lock(ev, attribute.String("redlock.outcome", outcome(ev.Err))))
	case redlock.EventRepair:
		for _, n := range ev.Nodes {
			o.repairs.Add(ctx, 1, node(n.Addr))
		}
	case redlock.EventEnd:
		o.held.Add(ctx, -1, o.lock(ev))
		o.holds.Record(ctx, ev.Duration.Seconds(), o.lock(ev, attribute.String("redlock.end", end(ev.Err))))
		if errors.Is(ev.Err, redlock.ErrLost) {
			o.lost.Add(ctx, 1, o.lock(ev))
		}
		o.span(ctx, "redlock hold", ev)
	case redlock.EventRun:
		became := o.lock(ev, attribute.String("redlock.outcome", run(ev.Err)))
		o.jobs.Record(ctx, ev.Duration.Seconds(), became)
		o.runs.Add(ctx, 1, became)
		o.runs.Add(ctx, 0, o.lock(ev, exhausted)) // the group's series, before it is
	case redlock.EventNode:
		o.states.enter(ctx, o.nodes, ev.Node, state(ev.Err))
		o.repairs.Add(ctx, 0, node(ev.Node)) // the node's series, before its first repair
	case redlock.EventClock:
		o.trips.Record(ctx, ev.Duration.Seconds(), node(ev.Node))
		o.offsets.Record(ctx, ev.Offset.Seconds(), node(ev.Node))
	}
}

// lock returns the attributes of a lock's metrics.
func (o *observer) lock(ev redlock.Event, attrs ...attribute.KeyValue) metric.MeasurementOption {
	if o.group != nil {
		attrs = append(attrs, attribute.String("redlock.group", named(o.group(ev.Name))))
	}
	return metric.WithAttributes(attrs...)
}

// node returns the attributes of a node's metrics.
func node(addr string) metric.MeasurementOption { return metric.WithAttributes(server(addr)...) }

// server returns what the semantic conventions call a server's address and port.
func server(addr string) []attribute.KeyValue {
	host, port, err := net.SplitHostPort(addr)
	number, wrong := strconv.Atoi(port)
	if err != nil || wrong != nil {
		return []attribute.KeyValue{attribute.String("server.address", named(strings.TrimPrefix(addr, "unix://")))}
	}
	return []attribute.KeyValue{attribute.String("server.address", named(host)), attribute.Int("server.port", number)}
}

// named returns a name as an attribute can hold it. One that is not UTF-8, which the protocol refuses together with all
// else in the batch, is quoted as the command and errors quote it.
func named(name string) string {
	if utf8.ValidString(name) {
		return name
	}
	return strconv.Quote(name)
}

// text returns an error's text as an attribute can hold it: what a node or a program says may be any bytes.
func text(err error) string { return strings.ToValidUTF8(err.Error(), "\uFFFD") }

// outcome returns one of a few words for how a call ended.
func outcome(err error) string {
	switch {
	case err == nil:
		return "granted"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded):
		return "deadline_exceeded"
	case errors.Is(err, redlock.ErrMaxWait):
		return "max_wait"
	case errors.Is(err, redlock.ErrClosed):
		return "closed"
	case errors.Is(err, redlock.ErrLost):
		return "lost"
	case errors.Is(err, redlock.ErrTaken):
		return "taken"
	case errors.Is(err, redlock.ErrNoQuorum):
		return "no_quorum"
	default:
		return "other"
	}
}

// run returns one of a few words for what became of a run of Once.
func run(err error) string {
	var q *redlock.QuorumError
	notRun := errors.Is(err, redlock.ErrNotAcquired)
	switch {
	case err == nil:
		return "succeeded"
	case notRun && errors.Is(err, redlock.ErrAlreadyRun):
		return "already_run"
	case notRun && errors.Is(err, redlock.ErrRunsExhausted):
		return "exhausted"
	case notRun:
		return "not_run"
	case errors.Is(err, redlock.ErrLost):
		return "lost"
	case errors.As(err, &q) && q.Op == "once": // else it is of a call in the job
		return "unknown"
	default:
		return "failed"
	}
}

// end returns one of a few words for how a hold ended.
func end(err error) string {
	switch {
	case err == nil:
		return "unlocked"
	case errors.Is(err, redlock.ErrLost):
		return "lost"
	case errors.Is(err, redlock.ErrUnlocked):
		return "handed_over"
	case errors.Is(err, redlock.ErrMaxHold):
		return "max_hold"
	case errors.Is(err, redlock.ErrClosed):
		return "closed"
	default:
		return "unlock_failed"
	}
}
