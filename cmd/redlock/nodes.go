package main

import (
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/quorumlock/redlock"
)

// nodesEnv names the variable that stands in for --nodes. It is read by hand and not through the flag's
// Sources: a flag with a source shows its value in --help, and URLs carry passwords.
const nodesEnv = "REDLOCK_NODES"

// lockerFlags are the flags of every verb that talks to nodes.
func lockerFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{
			Name:  "nodes",
			Usage: "the Redis masters: `URL,URL,…` of the forms redis://[user:password@]host[:port][/db], rediss://… (TLS), unix:///path, or host:port; default: $" + nodesEnv,
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
			DefaultText: "30s",
		},
		&cli.DurationFlag{
			Name:        "node-timeout",
			Usage:       "count a node as failed when it has not answered within `DURATION`",
			DefaultText: "250ms",
		},
	}
}

// newLocker makes a Locker of what lockerFlags say.
func newLocker(cmd *cli.Command) (*redlock.Locker, error) {
	text := os.Getenv(nodesEnv)
	if cmd.IsSet("nodes") {
		text = cmd.String("nodes")
	}
	nodes := parseNodes(text)
	if len(nodes) == 0 {
		return nil, usagef("no nodes: give --nodes or set %s", nodesEnv)
	}
	var opts []redlock.Option
	for flag, option := range map[string]func(time.Duration) redlock.Option{
		"ttl": redlock.WithTTL, "node-timeout": redlock.WithNodeTimeout,
		"restart-guard": redlock.WithRestartGuard,
	} {
		if cmd.IsSet(flag) {
			opts = append(opts, option(cmd.Duration(flag)))
		}
	}
	if cmd.IsSet("prefix") {
		opts = append(opts, redlock.WithPrefix(cmd.String("prefix")))
	}
	return redlock.New(nodes, opts...)
}

// parseNodes splits at commas and white space, and takes what has no scheme for the host of a redis:// URL.
func parseNodes(text string) []string {
	nodes := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' || r == '\r' })
	for i, n := range nodes {
		if !strings.Contains(n, "://") {
			nodes[i] = "redis://" + n
		}
	}
	return nodes
}
