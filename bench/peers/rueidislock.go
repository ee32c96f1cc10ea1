package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// on1 is rueidislock, which has one client and so one master.
func on1(config string, run func(context.Context, *masters) (outcome, error)) subject {
	return subject{
		library: "rueidislock", module: "github.com/redis/rueidis", config: config, masters: 1, run: run,
	}
}

func openRueidislock(opts rueidislock.LockerOption, node string) (rueidislock.Locker, error) {
	opts.ClientOption.InitAddress = []string{node}
	return rueidislock.NewLocker(opts)
}

var partitionedHolder = fault{
	name: "rueidislock-partition",
	about: "Somebody holds a lock of 5 s, and then the network loses whatever the holder and the masters send each " +
		"other. Another client, whose network is well, waits for the lock.",
	want: "The holder's context ends before the other client has the lock.",
	peers: []subject{
		on1("as in its README: `KeyMajority` 1, `NoLoopTracking`; default time-outs",
			partitioned(rueidislock.LockerOption{KeyMajority: 1, NoLoopTracking: true})),
		on1("its defaults", partitioned(rueidislock.LockerOption{})),
		on1("`ConnWriteTimeout` 1 s, which is for reads, too",
			partitioned(rueidislock.LockerOption{ClientOption: rueidis.ClientOption{ConnWriteTimeout: time.Second}})),
	},
	ours:  ours(3, partitionedOurs),
	tests: []string{"TestAPartitionedHolderLosesItsHoldInTime", "TestAPartitionedHolderIsToldBeforeAnybodyElseHolds"},
}

func partitioned(opts rueidislock.LockerOption) func(context.Context, *masters) (outcome, error) {
	return func(ctx context.Context, m *masters) (outcome, error) {
		first, err := openRueidislock(opts, m.proxied()[0])
		if err != nil {
			return outcome{}, err
		}
		defer first.Close()
		other, err := openRueidislock(opts, m.addrs()[0])
		if err != nil {
			return outcome{}, err
		}
		defer other.Close()
		held, cancel, err := first.WithContext(ctx, "n")
		if err != nil {
			return outcome{}, err
		}
		// It waits for the master, so not before the end of the run.
		defer func() { m.calls.Go(func() { cancel() }) }()
		return m.heldByTwo(ctx, held.Done(), func(ctx context.Context) error {
			_, cancel, err := other.WithContext(ctx, "n")
			if err == nil {
				m.calls.Go(func() { cancel() })
			}
			return err
		})
	}
}

// heldByTwo partitions a holder, lets another client wait for the lock, and sees for how long both trust their holds.
func (m *masters) heldByTwo(ctx context.Context, told <-chan struct{}, lock func(context.Context) error,
) (outcome, error) {
	m.partition()
	acquired := make(chan error, 1)
	m.calls.Go(func() { acquired <- lock(ctx) })
	var other, ended time.Time
	for other.IsZero() || ended.IsZero() {
		select {
		case err := <-acquired:
			if err != nil {
				return outcome{}, err
			}
			other, acquired = time.Now(), nil
		case <-told:
			ended, told = time.Now(), nil
		case <-ctx.Done():
			return outcome{}, errors.New("not both: the other client has the lock, and the holder's context has ended")
		}
	}
	when := "before the other client acquired the lock"
	if ended.After(other) {
		when = "after the other client had acquired the lock"
	}
	return outcome{
		fmt.Sprintf("the context ended %s %s", figure(ended.Sub(other).Abs()), when), !ended.After(other),
	}, nil
}

var foreignKey = fault{
	name: "rueidislock-foreign-key",
	about: "One of a lock's three keys is there already, and is another program's: the first, the second, the third. " +
		"(rueidislock has three keys on one master, redlock one on each of three.)",
	want:  "The lock can be acquired: two of three keys are a majority.",
	peers: []subject{on1("its defaults, so `KeyMajority` 2", foreignKeyRueidislock)},
	ours:  ours(3, foreignKeyOurs),
	tests: []string{"TestAForeignKeyOnAMinorityDoesNotBlock"},
}

func foreignKeyRueidislock(ctx context.Context, m *masters) (outcome, error) {
	l, err := openRueidislock(rueidislock.LockerOption{}, m.addrs()[0])
	if err != nil {
		return outcome{}, err
	}
	defer l.Close()
	return withForeignKey(func(i int, name string) error {
		return m.last().put(fmt.Sprintf("rueidislock:%d:%s", i, name), "somebody", time.Minute)
	}, func(name string) error {
		_, cancel, err := l.TryWithContext(ctx, name)
		if err == nil {
			cancel()
		}
		return err
	})
}

// withForeignKey puts each of three keys in turn, always of another lock, and tries to acquire that.
func withForeignKey(put func(i int, name string) error, try func(name string) error) (outcome, error) {
	var got []string
	for i := range 3 {
		name := fmt.Sprintf("n%d", i)
		if err := put(i, name); err != nil {
			return outcome{}, err
		}
		got = append(got, "acquired")
		if try(name) != nil {
			got[i] = "blocked"
		}
	}
	return outcome{
		fmt.Sprintf("the first: %s; the second: %s; the third: %s", got[0], got[1], got[2]),
		!slices.Contains(got, "blocked"),
	}, nil
}
