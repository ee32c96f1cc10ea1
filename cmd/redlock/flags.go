package main

import (
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
			Name:        "restart-guard",
			Usage:       "do not count the vote of a node that may have forgotten others for `DURATION`; no TTL may be longer",
			DefaultText: "30s, or --ttl if longer",
		},
		&cli.DurationFlag{
			Name:        "fence-retention",
			Usage:       "have the nodes keep tokens for `DURATION`, which must be 2s longer than any TTL",
			DefaultText: "1m, or twice --ttl",
		},
		&cli.DurationFlag{
			Name:        "node-timeout",
			Usage:       "count a node as failed when it has not answered within `DURATION`",
			DefaultText: "250ms",
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

// concessions are the flags for nodes that are refused otherwise. They are about a fleet, like those with a value.
var concessions = map[string]func() redlock.Option{
	"no-node-info": redlock.WithoutNodeInfo, "allow-eviction": redlock.WithEvictionAllowed,
}

// lockerOf returns what lockerFlags say.
func lockerOf(cmd *cli.Command) (nodes []string, opts []redlock.Option, err error) {
	nodes = parseNodes(cmd.String("nodes"))
	if len(nodes) == 0 {
		return nil, nil, usagef("no nodes: give --nodes or set %s", settingOf("nodes"))
	}
	all := parseNodes(cmd.String("nodes") + "," + cmd.String("to"))
	switch {
	case slices.ContainsFunc(all, hasSemicolon):
		return nil, nil, usagef(`separate the nodes by commas, not by ";"`)
	case slices.ContainsFunc(all, func(node string) bool { return strings.ContainsAny(node[:1], `"'`) }):
		return nil, nil, usagef("a node begins with a quote: write none around nodes (Docker's --env-file keeps them)")
	}
	if ttl, set := ttlOf(cmd); set {
		opts = append(opts, redlock.WithTTL(ttl))
	}
	for flag, option := range map[string]func(time.Duration) redlock.Option{
		"node-timeout":  redlock.WithNodeTimeout,
		"restart-guard": redlock.WithRestartGuard, "fence-retention": redlock.WithFenceRetention,
	} {
		if cmd.IsSet(flag) {
			opts = append(opts, option(cmd.Duration(flag)))
		}
	}
	for flag, option := range concessions {
		if cmd.Bool(flag) {
			opts = append(opts, option())
		}
	}
	if cmd.IsSet("prefix") {
		opts = append(opts, redlock.WithPrefix(cmd.String("prefix")))
	}
	var to []string
	if cmd.IsSet("to") {
		to = parseNodes(cmd.String("to"))
	}
	logins, err := loginsOf(cmd).option(cmd, nodes, to) // before New gets the lists, which may change them
	if err != nil {
		return nil, nil, err
	}
	opts = append(opts, logins...)
	if cmd.IsSet("to") {
		opts = append(opts, redlock.WithMigration(to))
	}
	if cmd.IsSet("label") {
		opts = append(opts, redlock.WithOwnerLabel(cmd.String("label")))
	}
	secure, err := tlsOf(cmd, slices.Concat(nodes, to))
	return nodes, append(opts, secure...), err
}

// ttlOf returns the TTL, and whether to set it. Verbs that take no lock have no use for it but that, if it is long, the
// restart guard and the retention follow it. So to them one that is too long for those is not wrong, unless doctor, who
// looks at settings, too, was given it.
func ttlOf(cmd *cli.Command) (ttl time.Duration, set bool) {
	ttl, set = cmd.Duration("ttl"), cmd.IsSet("ttl")
	looks := slices.Contains([]string{"wait", "ls", "status", "top", "doctor", "unlock"}, cmd.Name)
	if !looks || set && (ttl <= 0 || cmd.Name == "doctor") {
		return ttl, set
	}
	const usual, room, least = 10 * time.Second, 2 * time.Second, 100 * time.Millisecond
	if !set {
		ttl = usual
	}
	fits := ttl
	if guard := cmd.Duration("restart-guard"); guard > 0 {
		fits = min(fits, guard)
	}
	if cmd.IsSet("fence-retention") {
		fits = min(fits, cmd.Duration("fence-retention")-room)
	}
	return max(fits, min(ttl, least)), set || fits < ttl
}

// withLocker has a Locker used that is made of what lockerFlags say, and closes it.
func withLocker(cmd *cli.Command, use func(*redlock.Locker) error, more ...redlock.Option) error {
	nodes, opts, err := lockerOf(cmd)
	if err != nil {
		return err
	}
	locker, err := redlock.New(nodes, append(opts, more...)...)
	if err != nil {
		return err
	}
	defer locker.Close()
	return use(locker)
}

// hasSemicolon says whether a node is two, with a semicolon between them. There may be one in a password or a path.
func hasSemicolon(node string) bool {
	last := node[strings.LastIndexByte(node, ';')+1:]
	isURL, hasUser := strings.Contains(last, "://"), strings.Contains(last, "@")
	return last != node && !strings.HasPrefix(node, "unix:") && (isURL || !hasUser)
}

// parseNodes splits at commas and white space.
func parseNodes(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(", \t\n\r", r) })
}
