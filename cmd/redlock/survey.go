package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/quorumlock/redlock"
)

// survey asks every node how it is. Where two URLs lead to one server, no Locker is to be had; but who asks a doctor
// wants to hear of all that is wrong at once. So the second URL is left out, and told of beside the others.
func survey(ctx context.Context, urls []string, opts []redlock.Option) ([]redlock.NodeStatus, error) {
	whole, err := look(ctx, urls, opts)
	if err == nil || !errors.Is(err, redlock.ErrInvalid) {
		return whole, err
	}
	var fleet []string
	twins := make(map[int]redlock.NodeStatus) // by index in urls
	for i, url := range urls {
		locker, clash := redlock.New(append(fleet, url), opts...)
		if clash == nil {
			locker.Close()
			fleet = append(fleet, url)
			continue
		}
		alone, err := look(ctx, []string{url}, opts)
		if err != nil {
			return nil, err // it is not for the sake of another
		}
		alone[0].Err = clash
		twins[i] = alone[0]
	}
	rest, again := look(ctx, fleet, opts)
	if again != nil || len(twins) == 0 {
		return nil, err
	}
	all := make([]redlock.NodeStatus, len(urls))
	next := 0
	for i := range urls {
		if twin, ok := twins[i]; ok {
			twin.Findings = append(twin.Findings, twinned(twin, rest))
			all[i] = twin
			continue
		}
		all[i] = rest[next]
		next++
	}
	return all, nil
}

// twinned is a finding like that of a Locker which has noticed a twin later.
func twinned(twin redlock.NodeStatus, fleet []redlock.NodeStatus) redlock.Finding {
	other := "another URL" // unless the clash, which names both, is with one of another address
	for _, n := range fleet {
		if n.Addr != twin.Addr && strings.Contains(twin.Err.Error(), " "+n.Addr+":") {
			other = n.Addr
		}
	}
	return redlock.Finding{
		Code: "twice", Severity: redlock.Unsafe, Text: fmt.Sprintf("the same server as %s: it would have two votes", other),
		Remedy: "give each URL a master of its own",
	}
}

func look(ctx context.Context, urls []string, opts []redlock.Option) ([]redlock.NodeStatus, error) {
	locker, err := redlock.New(urls, opts...)
	if err != nil {
		return nil, err
	}
	defer locker.Close()
	return locker.Nodes(ctx), nil
}
