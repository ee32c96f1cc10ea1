package redlockotel

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/quorumlock/redlock"
)

// span records what has ended, as a child of the span in ctx. An event comes when all is over, so the span is
// made at once with both its times. It is internal: the requests to the nodes are batched with
// those of others, and are no calls of this one's own.
func (o *observer) span(ctx context.Context, name string, ev redlock.Event) {
	attrs := []attribute.KeyValue{attribute.String("redlock.name", named(ev.Name))}
	if ev.Token != 0 {
		attrs = append(attrs, attribute.Int64("redlock.token", ev.Token))
	}
	if ev.Kind == redlock.EventEnd {
		attrs = append(attrs, attribute.String("redlock.end", end(ev.Err)))
	}
	_, s := o.tracer.Start(ctx, name, trace.WithTimestamp(ev.Time.Add(-ev.Duration)), trace.WithAttributes(attrs...))
	defer s.End(trace.WithTimestamp(ev.Time))
	if !failed(ev) {
		return
	}
	s.SetAttributes(attribute.String("error.type", outcome(ev.Err)))
	s.SetStatus(codes.Error, text(ev.Err))
	for _, n := range ev.Nodes {
		said := append(server(n.Addr), attribute.String("redlock.outcome", n.Outcome))
		if n.Err != nil {
			said = append(said, attribute.String("exception.message", text(n.Err)))
		}
		s.AddEvent("redlock.node", trace.WithTimestamp(ev.Time), trace.WithAttributes(said...))
	}
}

// failed reports whether the event is bad news.
func failed(ev redlock.Event) bool {
	how := end(ev.Err)
	return how == "lost" || how == "unlock_failed" || ev.Kind == redlock.EventAcquire && ev.Err != nil
}
