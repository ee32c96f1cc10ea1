package main

import (
	"strings"
	"testing"
)

// What is wrong with a call, in one line, with what may have been meant; and no password in it.
func TestUsage(t *testing.T) {
	const (
		nodes     = "--nodes=redis://127.0.0.1:1 "
		noNodes   = "no nodes: give --nodes or set REDLOCK_NODES"
		verbs     = `; "redlock --help" lists them`
		ttl       = `for --ttl: want a duration, such as 500ms, 10s or 1h30m`
		tooLow    = "TTL 0s: Redis counts in milliseconds, 1ms is the least"
		semicolon = `separate the nodes by commas, not by ";"`
		quoted    = "a node begins with a quote: write none around nodes (Docker's --env-file keeps them)"
		scheme    = `node 2: unknown scheme "ftp": use redis, rediss (TLS) or unix`
		noTLS     = "--ca, --cert, --key and --server-name are for TLS, and no node is rediss://…"
		pair      = "--cert and --key need each other"
		noPEM     = ": failed to find any PEM data in certificate input"
		shells    = `want one shell: bash, zsh, fish or pwsh; see "redlock completion --help"`
		twice     = "nodes 1 and 2 are the same server h:6379: it would have two votes"
		both      = "--password-command: the URL of h:6379 has a password, too; " +
			"write a user alone with a colon, redis://USER:@HOST"
		noURL = "node 2: not a URL such as redis://user:password@host:6379/0: " +
			"percent-encode what is special in user and password, such as @ / # ? % (as %40 %2F %23 %3F %25)"
		label      = `the owner label "a\x01" has a character that cannot be printed`
		inBoth     = "the server h:6379 is in both lists with different URLs: give both the same"
		stuck      = "only its holder may release a lock; to take it from a holder that is stuck, add --force"
		noTerminal = "no terminal to ask on; add --yes if you are sure"
		tooLong    = "TTL 10s: longer than the longest TTL 8s, so a node could forget the lock and count again before it " +
			"ends: set --max-ttl to 10s or more, in all clients"
		tooEarly = "--term-before 7s: at most 6s, three fifths of the TTL 10s: it is renewed when two thirds are left, " +
			"and would end each run at once"
		replaced = " (did you mean --max-ttl?)"
	)
	see := func(verb string) string { return `; see "redlock ` + verb + `--help"` }
	empty := writeFile(t, "no certificate")
	lists := writeFile(t, "REDLOCK_NODES=app:s3cret@h,g\nREDLOCK_TO=app:other-s3cret@h,f")
	for typed, want := range map[string]string{
		"frobnicate":                     `no verb "frobnicate"` + verbs,
		"frobnicate --now":               `no verb "frobnicate"` + verbs,
		"help frobnicate":                `no verb "frobnicate"` + verbs,
		"rnu x true":                     `no verb "rnu" (did you mean run?)` + verbs,
		"stat x":                         `no verb "stat" (did you mean status?)` + verbs,
		"node":                           `no verb "node"` + verbs,
		"nodes":                          `no verb "nodes"` + verbs,
		"exit":                           `no verb "exit"` + verbs,
		"lock x true":                    `no verb "lock" (did you mean run?)` + verbs,
		"elect x true":                   `no verb "elect" (did you mean run?)` + verbs,
		"release x":                      `no verb "release" (did you mean unlock?)` + verbs,
		"run --nowait x true":            `no flag --nowait (did you mean --no-wait?)` + see("run "),
		"run --node-timout=1s x true":    `no flag --node-timout (did you mean --node-timeout?)` + see("run "),
		"status --node=h x":              `no flag --node (did you mean --nodes?)` + see("status "),
		"run --xyzzy x true":             `no flag --xyzzy` + see("run "),
		"once --s3cret=rediss://u:p@h x": `no flag --s3cret` + see("once "),
		"--frobnicate run x true":        `no flag --frobnicate` + see(""),
		"--ashes":                        `no flag --ashes` + see(""),
		"--ttl 5s run x -- true":         `--ttl stands behind the verb: redlock VERB --ttl` + see(""),
		"--max-runs=2 once x true":       `--max-runs stands behind the verb: redlock VERB --max-runs` + see(""),
		"run --restart-guard=1m x true":  "no flag --restart-guard" + replaced + see("run "),
		"ls --fence-retention 1m":        `no flag --fence-retention (did you mean --max-ttl?)` + see("ls "),
		"run --maxttl=1m x true":         `no flag --maxttl (did you mean --max-ttl?)` + see("run "),
		"run -n x true":                  `no flag -n (did you mean --no-wait?)` + see("run "),
		"run -w 5 x true":                `no flag -w (did you mean --wait?)` + see("run "),
		"status -n h x":                  `no flag -n (did you mean --nodes?)` + see("status "),
		"status -z x":                    `no flag -z` + see("status "),
		"run --ttl 5 x":                  `invalid value "5" ` + ttl + ` (did you mean 5s?)` + see("run "),
		"run --ttl=5x x true":            `invalid value "5x" ` + ttl + see("run "),
		"once --max-runs no x true":      `invalid value "no" for --max-runs: want a whole number` + see("once "),
		"run --json=maybe x true":        `invalid value "maybe" for --json: want true or false` + see("run "),

		"completion":        shells,
		"completion tcsh":   shells,
		"completion --bash": `no flag --bash` + see("completion "),
		"completion zsh -x": `no flag -x` + see("completion zsh "),

		"demo now":                            `demo takes no arguments, got "now"`,
		"run":                                 "no lock name" + see("run "),
		"once":                                "no lock name" + see("once "),
		"run " + nodes + "x":                  `no command to run while "x" is held`,
		"run " + nodes + "x --":               `no command to run while "x" is held`,
		"run " + nodes + "x --ttl 5s -- true": `"--ttl" after the lock name: flags stand before it`,
		"once " + nodes + "x --max-runs 2 -- true":    `"--max-runs" after the lock name: flags stand before it`,
		"run " + nodes + "--wait 1s --no-wait x true": "--wait and --no-wait exclude each other",
		"run " + nodes + "--wait -1s x true":          "--wait -1s is negative",
		"run " + nodes + "--term-before -1s x true":   "--term-before -1s is negative",
		"run " + nodes + "--term-before 7s x true":    tooEarly,
		"run --kill-after 2s x true":                  "no flag --kill-after (did you mean --term-before?)" + see("run "),
		"run " + nodes + "--taken-code -1 x true":     "--taken-code -1: want 0 to 255",
		"once " + nodes + "--taken-code 256 x true":   "--taken-code 256: want 0 to 255",
		"once " + nodes + "--done-code 256 x true":    "--done-code 256: want 0 to 255",
		"once " + nodes + "--max-runs -1 x true":      "once x: invalid: the maximum of -1 runs is negative",
		"once " + nodes + "--done-ttl 15s x true": "once x: invalid: done TTL 15s: less than twice the TTL 10s, " +
			"so a crashed run could be forgotten before its lock is free",
		"run " + nodes + "--value=" + strings.Repeat("a", 1025) + " x true": "lock x: invalid: the value has 1025 bytes: " +
			"at most 1024",
		"status " + nodes:               "want one lock name, got 0" + see("status "),
		"status " + nodes + "one two":   "want one lock name, got 2" + see("status "),
		"doctor " + nodes + "x":         `doctor takes no arguments, got "x"`,
		"wait " + nodes + "x":           `wait takes no arguments, got "x"; "redlock run NAME" waits for a lock`,
		"ls " + nodes + "a b":           "want one prefix, got 2" + see("ls "),
		"forget " + nodes:               "want the name of one job, got 0" + see("forget "),
		"unlock " + nodes + "x":         stuck,
		"unlock " + nodes + "--force x": noTerminal,
		"watch " + nodes:                "want one lock name, got 0" + see("watch "),

		"unlock " + nodes + "--force --older-than=1h x": noTerminal,
		"unlock " + nodes + "--force --older-than=0s x": "--older-than 0s is not positive",
		"unlock " + nodes + "--older-than=1h x":         stuck,
		"unlock " + nodes + "--force --older-than=1h --prefix=x": "want one prefix of names, got 0 ('' is that of all)" +
			see("unlock "),

		"run x true":                                         noNodes,
		"doctor":                                             noNodes,
		"run --nodes , x true":                               noNodes,
		"run --nodes h,ftp://x x true":                       scheme,
		"doctor --nodes=h,ftp://x":                           scheme,
		"run --nodes h,h x true":                             twice,
		"run --ttl 0s " + nodes + "x true":                   tooLow,
		"doctor --nodes=h,g --ttl=0s":                        tooLow,
		"run --max-ttl=8s --nodes=h,g x true":                tooLong,
		"doctor --nodes=h --ttl=9s --max-ttl=8s":             "--ttl 9s is longer than --max-ttl 8s",
		"doctor --nodes=h --label=a\x01":                     label,
		"run --nodes a;b --no-wait x ls":                     semicolon,
		"status --nodes a --to b;c x":                        semicolon,
		"run --nodes \"a,b\" x ls":                           quoted,
		"status --nodes a --to 'b,c' x":                      quoted,
		"wait --config=" + lists:                             inBoth,
		"wait --nodes=h,app:@h --password-command=x":         twice,
		"wait --nodes=h,app:s3cret/@g --password-command=x":  noURL,
		"wait --nodes=app:s3cret@h --password-command=x":     both,
		"wait --nodes=redis://s3cret@h --password-command=x": both,

		"doctor --nodes=h,g --ca=" + empty:        noTLS,
		"doctor --nodes=rediss://h --ca=" + empty: "--ca: no certificate in " + empty,

		"doctor --nodes=rediss://h --ca=/no/such/file": "--ca: open /no/such/file: no such file or directory",

		"doctor --nodes=rediss://h --cert=" + empty:                     pair,
		"doctor --nodes=rediss://h --key=" + empty:                      pair,
		"doctor --nodes=rediss://h --cert=" + empty + " --key=" + empty: "--cert, --key: " + empty + ", " + empty + noPEM,
	} {
		code, stdout, said := redlocks(t, strings.Fields(typed)...)
		if code != exitUsage || stdout != "" || said != "redlock: "+want+"\n" {
			t.Errorf("%s: got %d, %q, %q, want %q", typed, code, stdout, said, want)
		}
	}
}
