package redlockotel

import (
	"context"
	"errors"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/quorumlock/redlock"
)

// instruments are all metrics. A histogram's count counts what it measures, so there is no
// counter beside it; except of what alerts are about: a series that begins with the
// first loss shows no increase.
type instruments struct {
	attempts metric.Float64Histogram
	waits    metric.Float64Histogram
	waiting  metric.Int64UpDownCounter
	held     metric.Int64UpDownCounter
	holds    metric.Float64Histogram
	lost     metric.Int64Counter
	jobs     metric.Float64Histogram
	runs     metric.Int64Counter
	renewals metric.Float64Histogram
	repairs  metric.Int64Counter
	nodes    metric.Int64UpDownCounter
	trips    metric.Float64Histogram
	offsets  metric.Float64Gauge
	dropped  metric.Int64Counter
}

// Bounds of the histograms, in seconds: of what takes a round trip, and of what takes as long as users want.
var (
	quick = metric.WithExplicitBucketBoundaries(.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1)
	slow  = metric.WithExplicitBucketBoundaries(.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5,
		1, 2.5, 5, 10, 30, 60, 300, 1800)
)

// exhausted is the outcome of a job that an alert is about.
var exhausted = attribute.String("redlock.outcome", "exhausted")

func (i *instruments) create(m metric.Meter) error {
	var errs [14]error
	seconds := metric.WithUnit("s")
	i.attempts, errs[0] = m.Float64Histogram("redlock.attempt.duration", seconds, quick,
		metric.WithDescription("Time until it was certain whether a majority gives the lock"))
	i.waits, errs[1] = m.Float64Histogram("redlock.wait.duration", seconds, slow,
		metric.WithDescription("Time from wanting a lock to having it, or to giving up"))
	i.held, errs[2] = m.Int64UpDownCounter("redlock.holds", metric.WithUnit("{hold}"),
		metric.WithDescription("Locks held at present"))
	i.holds, errs[3] = m.Float64Histogram("redlock.hold.duration", seconds, slow,
		metric.WithDescription("Time for which locks were held"))
	i.lost, errs[4] = m.Int64Counter("redlock.lost", metric.WithUnit("{hold}"),
		metric.WithDescription("Holds that ended before they were unlocked"))
	i.renewals, errs[5] = m.Float64Histogram("redlock.renewal.duration", seconds, quick,
		metric.WithDescription("Time until it was certain whether a majority extends the hold"))
	i.repairs, errs[6] = m.Int64Counter("redlock.repairs", metric.WithUnit("{hold}"),
		metric.WithDescription("Holds that a node had forgotten and was told again"))
	i.nodes, errs[7] = m.Int64UpDownCounter("redlock.node.state", metric.WithUnit("{node}"),
		metric.WithDescription("1 for the state that the node is in, 0 for the others"))
	i.trips, errs[8] = m.Float64Histogram("redlock.node.round_trip", seconds, quick,
		metric.WithDescription("Time that the node took to tell the time"))
	i.offsets, errs[9] = m.Float64Gauge("redlock.node.clock_offset", seconds,
		metric.WithDescription("How far the node's clock is ahead of the median of the nodes"))
	i.dropped, errs[10] = m.Int64Counter("redlock.events.dropped", metric.WithUnit("{event}"),
		metric.WithDescription("Events that were lost because the observer was slow; the other metrics lack them"))
	i.jobs, errs[11] = m.Float64Histogram("redlock.job.duration", seconds, slow,
		metric.WithDescription("Time that calls of Once took, with the wait and the job"))
	i.runs, errs[12] = m.Int64Counter("redlock.job.runs", metric.WithUnit("{run}"),
		metric.WithDescription("Calls of Once, by what became of the run"))
	i.waiting, errs[13] = m.Int64UpDownCounter("redlock.waiting", metric.WithUnit("{call}"),
		metric.WithDescription("Calls that wait for a lock at present"))
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	i.waiting.Add(context.Background(), 0)
	i.lost.Add(context.Background(), 0)
	i.dropped.Add(context.Background(), 0)
	i.runs.Add(context.Background(), 0, metric.WithAttributes(exhausted))
	return nil
}

// states are the states that nodes are in. Each Locker's events come from a goroutine of its own.
type states struct {
	mu sync.Mutex // guards of
	of map[string]string
}

// state returns the state of a node whose votes count, or do not because of err.
func state(err error) string {
	switch {
	case err == nil:
		return "up"
	case errors.Is(err, redlock.ErrNodeAbstains):
		return "abstaining"
	default:
		return "down"
	}
}

// enter moves a node to a state.
func (s *states) enter(ctx context.Context, nodes metric.Int64UpDownCounter, addr, now string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.of[addr]
	if was == now {
		return
	}
	s.of[addr] = now
	for _, name := range []string{"up", "down", "abstaining"} {
		change := int64(0) // so that the series is there from the beginning
		if name == was {
			change = -1
		} else if name == now {
			change = 1
		}
		nodes.Add(ctx, change, metric.WithAttributes(append(server(addr), attribute.String("redlock.state", name))...))
	}
}
