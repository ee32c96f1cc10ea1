package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/cmd/redlock/internal/terminal"
	"github.com/quorumlock/redlock/finding"
)

// Doctor's verdicts are exit codes that monitoring systems know of a check: fine, warning, critical, unknown.
const (
	exitDegraded    exitCode = 1
	exitUnsafe      exitCode = 2
	exitUnavailable exitCode = 3
)

func doctorVerb() *cli.Command {
	return &cli.Command{
		Name:      "doctor",
		Usage:     "look for what makes locks unsafe or unavailable",
		UsageText: "redlock doctor [flags]",
		Description: strings.TrimSpace(`
Asks every node how it is, and prints a line for each, then what there is to
change; docs/operations.md explains each [code]. Nothing is locked. On the
nodes it writes at most the node record, as every client does.

EXIT CODES
   0     healthy: every node votes
   1     degraded: locks are safe, but a node does not vote, or something
         ought to be changed
   2     unsafe: a lock may be granted twice
   3     unavailable: no lock can be taken, since no majority votes or grants
         what locks need, or this list of nodes is refused. Masters that have
         just been started will vote after the restart guard
   64    wrong usage: flags, settings or nodes`),
		Flags:  withNodes(jsonFlag("print one JSON object")),
		Action: settled(doctorAction),
	}
}

func doctorAction(ctx context.Context, cmd *cli.Command) error {
	if cmd.Args().Present() {
		return usagef("doctor takes no arguments, got %q", cmd.Args().First())
	}
	nodes, opts, err := lockerOf(cmd)
	if err != nil {
		return err
	}
	if ttl, most := cmd.Duration("ttl"), cmd.Duration("max-ttl"); cmd.IsSet("max-ttl") && ttl > most {
		return usagef("--ttl %s is longer than --max-ttl %s", ttl, most) // verbs that only look may have one so long
	}
	statuses, err := askAll(ctx, nodes, opts)
	if err != nil {
		return err
	}
	d := diagnose(statuses)
	if err := show(cmd, d.object(), d.print); err != nil {
		return err
	}
	if code := verdicts[d.worst].code; code != exitOK {
		return &failure{code: code}
	}
	return nil
}

// diagnosis is what doctor has to say.
type diagnosis struct {
	nodes    []redlock.NodeStatus
	lists    []nodeList
	voting   int
	clients  []redlock.NodeClients
	findings []numbered
	worst    finding.Severity
	soon     time.Duration // until a majority votes by itself; 0: not known, or it does
}

// numbered is a finding and the node it concerns; "" for all.
type numbered struct {
	node string
	finding.Finding
}

var verdicts = map[finding.Severity]struct {
	word   string
	colour string
	code   exitCode
}{
	finding.Note:        {"healthy", terminal.Green, exitOK},
	finding.Degraded:    {"degraded", terminal.Yellow, exitDegraded},
	finding.Unavailable: {"unavailable", terminal.Red, exitUnavailable},
	finding.Unsafe:      {"unsafe", terminal.Red, exitUnsafe},
}

func diagnose(nodes []redlock.NodeStatus) *diagnosis {
	d := &diagnosis{nodes: nodes, voting: voting(nodes)}
	for _, n := range nodes {
		for _, f := range n.Findings {
			f.Text, f.Remedy = inOurWords(f.Text), inOurWords(f.Remedy)
			found := numbered{n.Addr, f}
			known := slices.Contains(d.findings, found)
			if f.Code == finding.Lists { // each node may say so, at its own time, and it is about all of them
				found.node = ""
				known = slices.ContainsFunc(d.findings, func(other numbered) bool {
					return other.Code == f.Code && other.Severity >= f.Severity
				})
			}
			if !known {
				d.findings = append(d.findings, found)
			}
		}
	}
	all := func(code finding.Code, s finding.Severity, remedy, format string, args ...any) {
		f := finding.Finding{Code: code, Severity: s, Text: fmt.Sprintf(format, args...), Remedy: remedy}
		d.findings = append(d.findings, numbered{"", f})
	}
	const fix = "fix the nodes named above"
	d.lists = listsOf(nodes)
	d.soon = untilMajorities(d.lists)
	for _, l := range d.lists {
		votes, need, size := voting(l.nodes), l.need(), len(l.nodes)
		switch {
		case votes < need && d.soon > 0:
			all("waiting", finding.Unavailable, "wait",
				"%s, a majority is %d: no lock can be taken for %s", l.inWords(), need, span(d.soon))
		case votes < need:
			all("no-majority", finding.Unavailable, fix, "%s, a majority is %d: no lock can be taken", l.inWords(), need)
		case size == 1:
			all("no-spare", finding.Note, "use three or five",
				"%sthere is one node: when it fails, no lock can be taken", l.name)
		case votes < size && votes == need:
			all("no-spare", finding.Degraded, fix,
				"%sjust a majority votes: the next failure stops all locking", l.name)
		}
		if size%2 == 0 {
			all("even", finding.Degraded, "use one node more or one less",
				"%s%d nodes bear no more failures than %d", l.name, size, size-1)
		}
	}
	d.clients = clientsOf(nodes)
	if d.voting < len(nodes) {
		d.worst = finding.Degraded
	}
	for _, f := range d.findings {
		d.worst = max(d.worst, f.Severity)
	}
	return d
}

// clientsOf sums up what the nodes said of their clients: by the clients' lists, the largest number that any node saw.
func clientsOf(nodes []redlock.NodeStatus) (all []redlock.NodeClients) {
	for _, n := range nodes {
		for _, c := range n.Clients {
			same := func(known redlock.NodeClients) bool { return slices.EqualFunc(known.Lists, c.Lists, slices.Equal) }
			if at := slices.IndexFunc(all, same); at >= 0 {
				all[at].Clients = max(all[at].Clients, c.Clients)
			} else {
				all = append(all, c)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b redlock.NodeClients) int { return cmp.Compare(b.Clients, a.Clients) })
	return all
}

// untilMajorities returns when every list has a majority, or 0 where that is not known.
func untilMajorities(lists []nodeList) (soon time.Duration) {
	for _, l := range lists {
		until := untilMajority(l.nodes, l.need())
		if until == 0 && !l.majority() {
			return 0
		}
		soon = max(soon, until)
	}
	return soon
}

// untilMajority returns when enough of those that abstain will vote, or 0 where that is not enough or not known.
func untilMajority(nodes []redlock.NodeStatus, need int) time.Duration {
	var begins []time.Duration // of the votes of each node
	for _, n := range nodes {
		if n.Err == nil {
			begins = append(begins, 0)
		} else if !n.AbstainsUntil.IsZero() {
			begins = append(begins, max(0, time.Until(n.AbstainsUntil))+time.Second) // rounded up
		}
	}
	if len(begins) < need {
		return 0
	}
	slices.Sort(begins)
	return begins[need-1]
}

func (d *diagnosis) print(p terminal.Printer) error {
	rows := [][]string{{"NODE", "VOTES", "ROLE", "UP", "CLOCK", "TRIP", "EVICTION", "SERVER", "PERSISTENCE"}}
	for _, n := range d.nodes {
		rows = append(rows, []string{
			withList(n, withScheme(n)), votes(n), role(n), span(n.Uptime), clock(n), trip(n), cmp.Or(n.EvictionPolicy, "-"),
			cmp.Or(strings.TrimSpace(n.Product+" "+n.Version), "-"), cmp.Or(n.Persistence, "-"),
		})
	}
	errs := []error{p.Table(rows)}
	for i, c := range d.clients {
		head := "clients: "
		if i > 0 {
			head = "         "
		}
		errs = append(errs, p.Item(head, "", fmt.Sprintf("%d with %s", c.Clients, listsInWords(c.Lists))))
	}
	errs = append(errs, p.Print(""))
	for i, f := range d.findings {
		text := fmt.Sprintf("[%s] %s: %s", f.Code, cmp.Or(f.node, "all nodes"), f.Text)
		errs = append(errs, p.Item(fmt.Sprintf("%d. ", i+1), severityColours[f.Severity], text))
		// Once is enough for nodes that have the same.
		if f.Remedy != "" && (i+1 == len(d.findings) || d.findings[i+1].Remedy != f.Remedy) {
			errs = append(errs, p.Item("   ", "", f.Remedy))
		}
	}
	if len(d.findings) > 0 {
		errs = append(errs, p.Print(""))
	}
	verdict := verdicts[d.worst]
	text := p.Paint(verdict.colour, verdict.word) + ": " + votesInWords(d.nodes)
	unavailable := func(f numbered) bool { return f.Severity == finding.Unavailable }
	if at := slices.IndexFunc(d.findings, unavailable); at >= 0 {
		switch f := d.findings[at]; {
		case f.Code == finding.Lists:
			text += ", but not for clients with this list"
		case f.node != "":
			text += ", but too few may do what locks need"
		}
	}
	if slices.ContainsFunc(d.lists, func(l nodeList) bool { return !l.majority() }) && d.soon > 0 {
		text += "; a majority will in " + span(d.soon)
	}
	errs = append(errs, p.Draw(text))
	return errors.Join(errs...)
}

// listsInWords shows lists of addresses: "a b c", or "a b c to a b d".
func listsInWords(lists [][]string) string {
	var words []string
	for _, l := range lists {
		words = append(words, strings.Join(l, " "))
	}
	return strings.Join(words, " to ")
}

// Colours say at a glance what matters.
var severityColours = map[finding.Severity]string{
	finding.Note: terminal.Dim, finding.Degraded: terminal.Yellow,
	finding.Unavailable: terminal.Red, finding.Unsafe: terminal.Red,
}

// askAll asks every node how it is. Where two URLs lead to one server, there is no Inspector; but doctor is to tell of
// all that is wrong at once. So the second URL is left out, and told of beside the others.
func askAll(ctx context.Context, urls []string, opts []redlock.Option) ([]redlock.NodeStatus, error) {
	nodes, err := ask(ctx, urls, opts)
	if err == nil || !errors.Is(err, redlock.ErrInvalid) {
		return nodes, err
	}
	var distinct []string
	duplicates := make(map[int]redlock.NodeStatus) // by index in urls
	for i, url := range urls {
		inspector, clash := redlock.NewInspector(append(distinct, url), opts...)
		if clash == nil {
			inspector.Close()
			distinct = append(distinct, url)
			continue
		}
		alone, wrong := ask(ctx, []string{url}, opts)
		if wrong != nil {
			return nil, err // by itself; this says which one
		}
		alone[0].Err = clash
		duplicates[i] = alone[0]
	}
	rest, again := ask(ctx, distinct, opts)
	if again != nil || len(duplicates) == 0 {
		return nil, err
	}
	for i := range urls {
		if n, ok := duplicates[i]; ok {
			n.Findings = append(n.Findings, duplicateFinding(n, rest))
			rest = slices.Insert(rest, i, n)
		}
	}
	return rest, nil
}

// duplicateFinding is like that of a Locker which has noticed later that two of its nodes are one.
func duplicateFinding(n redlock.NodeStatus, rest []redlock.NodeStatus) finding.Finding {
	same := "another URL" // unless the clash, which names both, is with one of another address
	for _, other := range rest {
		if other.Addr != n.Addr && strings.Contains(n.Err.Error(), " "+other.Addr+":") {
			same = other.Addr
		}
	}
	return finding.Finding{
		Code: finding.Twice, Severity: finding.Unsafe, Remedy: "give each URL a master of its own",
		Text: fmt.Sprintf("the same server as %s: it would have two votes", same),
	}
}

func ask(ctx context.Context, urls []string, opts []redlock.Option) ([]redlock.NodeStatus, error) {
	inspector, err := redlock.NewInspector(urls, opts...)
	if err != nil {
		return nil, err
	}
	defer inspector.Close()
	nodes := inspector.Status(ctx)
	// A frozen node takes longer to be known for one than the majority takes to connect.
	waits := func(n redlock.NodeStatus) bool { return n.Err != nil && strings.HasPrefix(n.Err.Error(), undecided) }
	for slices.ContainsFunc(nodes, waits) && ctx.Err() == nil {
		<-time.After(10 * firstPoll)
		nodes = inspector.Status(ctx)
	}
	return nodes, nil
}

const undecided = "not connected yet" // an attempt to connect is under way, which ends
