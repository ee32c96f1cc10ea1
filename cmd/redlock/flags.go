package main

import (
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/quorumlock/redlock"
)

// withNodes returns a verb's own flags and, behind them, those of every verb that talks to nodes.
func withNodes(own ...cli.Flag) []cli.Flag {
	shared := lockerFlags()
	for _, flag := range shared {
		flag.(cli.CategorizableFlag).SetCategory(nodesTopic)
	}
	return append(own, shared...)
}

// lockerFlags are the flags of every verb that talks to nodes.
func lockerFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{
			Name: "nodes",
			Usage: "the Redis masters: `URL,URL,…` of the forms redis://[user:password@]host[:port][/db], " +
				"rediss://… (TLS), unix:///path, or host:port",
		},
		&cli.StringFlag{
			Name: "to",
			Usage: "change the nodes to `URL,URL,…`: each lock then needs a majority of --nodes and one of these; " +
				"see docs/changing-nodes.md",
		},
		&cli.StringFlag{
			Name: configFlag, TakesFile: true,
			Usage: "read settings from `FILE`: lines such as REDLOCK_NODES=URL,URL,…; users and passwords of these URLs " +
				"are read anew whenever a node is connected",
		},
		&cli.DurationFlag{
			Name:        "ttl",
			Usage:       "how long the nodes keep the lock when this machine dies, as `DURATION`; renewed while it lives",
			DefaultText: "10s",
		},
		&cli.StringFlag{Name: "prefix", Usage: "put `TEXT` before NAME to make the key on the nodes"},
		&cli.DurationFlag{
			Name: "max-ttl",
			Usage: "the longest TTL that any client uses, as `DURATION`, the same for all: so long the vote of a node that " +
				"may have forgotten others does not count",
			DefaultText: "30s, or --ttl if longer",
		},
		&cli.DurationFlag{
			Name:        "node-timeout",
			Usage:       "count a node as failed when it has not answered within `DURATION`",
			DefaultText: "250ms",
		},
		&cli.BoolFlag{
			Name:  "no-restart-guard",
			Usage: "count the votes of nodes that have just been started, for development: two may then hold one lock",
		},
		&cli.BoolFlag{
			Name:  "no-node-info",
			Usage: "accept nodes that refuse INFO; each start then waits for the restart guard",
		},
		&cli.BoolFlag{
			Name:  "allow-eviction",
			Usage: "accept nodes that may evict locks which are held: then two can hold one",
		},
		&cli.StringFlag{
			Name: "label", Usage: "be called `TEXT` where others see who holds a lock", DefaultText: "host/pid",
		},
		passwordFlag(),
	}, tlsFlags()...)
}

// concessions are the flags for nodes that do not count otherwise. They are about a fleet, like those with a value.
var concessions = []string{"no-restart-guard", "no-node-info", "allow-eviction"}

// lockerOf returns what lockerFlags say.
func lockerOf(cmd *cli.Command) (nodes []string, opts []redlock.Option, err error) {
	nodes = redlock.ParseNodes(cmd.String("nodes"))
	switch {
	case len(nodes) == 0 && os.Getenv("REDLOCK_OWNER") != "": // we are the command, or a part of it
		return nil, nil, usagef("no nodes: give --nodes, or --%s to the redlock that holds the lock", passNodes)
	case len(nodes) == 0:
		return nil, nil, usagef("no nodes: give --nodes or set %s", settingOf("nodes"))
	}
	to := redlock.ParseNodes(cmd.String("to"))
	switch all := slices.Concat(nodes, to); {
	case slices.ContainsFunc(all, hasSemicolon):
		return nil, nil, usagef(`separate the nodes by commas, not by ";"`)
	case slices.ContainsFunc(all, func(node string) bool { return strings.ContainsAny(node[:1], `"'`) }):
		return nil, nil, usagef("a node begins with a quote: write none around nodes (Docker's --env-file keeps them)")
	}
	for flag, option := range map[string]func(time.Duration) redlock.Option{
		"ttl":     func(d time.Duration) redlock.Option { return redlock.WithTTL(d) },
		"max-ttl": redlock.WithMaxTTL, "node-timeout": redlock.WithNodeTimeout,
	} {
		if cmd.IsSet(flag) {
			opts = append(opts, option(cmd.Duration(flag)))
		}
	}
	if cmd.IsSet("prefix") {
		opts = append(opts, redlock.WithPrefix(cmd.String("prefix")))
	}
	node := redlock.NodeConfig{
		NoRestartGuard: cmd.Bool("no-restart-guard"),
		AllowNoInfo:    cmd.Bool("no-node-info"), AllowEviction: cmd.Bool("allow-eviction"),
	}
	if err = loginsOf(cmd).provide(&node, cmd, nodes, to); err != nil { // before New gets the lists, which may change them
		return nil, nil, err
	}
	if node.TLS, err = tlsOf(cmd, slices.Concat(nodes, to)); err != nil {
		return nil, nil, err
	}
	opts = append(opts, redlock.WithNodeConfig(node))
	if cmd.IsSet("to") {
		opts = append(opts, redlock.WithNewNodes(to))
	}
	if cmd.IsSet("label") {
		opts = append(opts, redlock.WithOwnerLabel(cmd.String("label")))
	}
	return nodes, opts, nil
}

// connected has a Locker or an Inspector used that is made of what lockerFlags say, and closes it.
func connected[C io.Closer](
	cmd *cli.Command, open func([]string, ...redlock.Option) (C, error), use func(C) error, more ...redlock.Option,
) error {
	nodes, opts, err := lockerOf(cmd)
	if err != nil {
		return err
	}
	client, err := open(nodes, append(opts, more...)...)
	if err != nil {
		return err
	}
	defer client.Close()
	return use(client)
}

// hasSemicolon says whether a node is two, with a semicolon between them. There may be one in a password or a path.
func hasSemicolon(node string) bool {
	last := node[strings.LastIndexByte(node, ';')+1:]
	isURL, hasUser := strings.Contains(last, "://"), strings.Contains(last, "@")
	return last != node && !strings.HasPrefix(node, "unix:") && (isURL || !hasUser)
}
