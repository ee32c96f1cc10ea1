package sim

import (
	"fmt"
	"slices"
	"strings"
)

func cmdSubscribe(x *call) any {
	c := x.client
	var r replies
	for _, ch := range x.args[1:] {
		if !slices.Contains(c.subs, ch) {
			c.subs = append(c.subs, ch)
		}
		r = append(r, []any{"subscribe", ch, int64(len(c.subs))})
	}
	return r
}

// cmdPublish writes to the subscribers at once; delivery takes each one's own delay.
func cmdPublish(x *call) any {
	var n int64
	heard := ""
	for _, c := range x.clients {
		if slices.Contains(c.subs, x.args[1]) {
			c.push([]any{"message", x.args[1], x.args[2]})
			heard = c.from
			n++
		}
	}
	for _, c := range x.clients {
		if copied := x.copies[heard]; copied != "" && c.from == copied && len(c.subs) > 0 {
			c.push([]any{"message", c.subs[0], x.args[2]})
			n++
		}
	}
	return n
}

// cmdPubSub knows PUBSUB CHANNELS pattern alone.
func cmdPubSub(x *call) any {
	if strings.ToLower(x.args[1]) != "channels" || len(x.args) != 3 {
		return Error(fmt.Sprintf("ERR unknown subcommand or wrong number of arguments for '%.128s'. Try PUBSUB HELP.",
			x.args[1]))
	}
	heard := map[string]bool{}
	for _, c := range x.clients {
		for _, ch := range c.subs {
			if matches(x.args[2], ch) {
				heard[ch] = true
			}
		}
	}
	return bulks(sortedKeys(heard))
}

// Copy makes two clients of the network like a process and its copy, from a snapshot that was started twice: both
// listen to one channel, so each hears what the other is told.
func (n *Node) Copy(client, copied string) {
	n.set(func() { n.copies = map[string]string{client: copied, copied: client} })
}
