package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// rival returns the first clients whose lists conflict with this client's, or nil.
func (f *Facts) rival() *Clients {
	if at := slices.IndexFunc(f.Clients, func(c Clients) bool { return c.Conflict }); at >= 0 {
		return &f.Clients[at]
	}
	return nil
}

// listsInWords shows the lists of all clients.
func (f *Facts) listsInWords() string {
	var lists []string
	for _, c := range f.Clients {
		lists = append(lists, c.InWords)
	}
	if !f.Clash { // the node has yet to be told of this client
		lists = append(lists, f.OwnInWords)
	}
	return strings.Join(lists, "; and ")
}

// ownListInWords says why this client is refused because of others' lists: which node of its lists comes first that is
// not in theirs, and what it has, then what they use. It returns "" if no lists conflict.
func (f *Facts) ownListInWords() string {
	others := f.rival()
	if others == nil {
		return ""
	}
	text, clients := "", "other clients"
	ours, theirs := missing(f.Own, others.Lists), missing(others.Lists, f.Own)
	switch {
	case others.Elsewhere, ours == nil && theirs == nil:
		theirs = []string{others.InWords}
	case ours == nil:
		text = "this list lacks " + theirs[0]
	case f.Down[ours[0]] != "":
		text = ours[0] + ": " + f.Down[ours[0]]
	default:
		text = ours[0] + " is in this list alone"
	}
	if text != "" {
		text, clients = text+"; ", "others"
	}
	use, which, until := "use", cmp.Or(strings.Join(theirs, " "), "one node less"), "as long as they do"
	switch {
	case others.Gone:
		use, until = "used", "until the nodes have forgotten them"
		which += fmt.Sprintf(", over %d s ago", others.Seen)
	case others.Seen > 0:
		which += fmt.Sprintf(", or did up to %d s ago", others.Seen)
	}
	return fmt.Sprintf("%s%s %s %s: a client with this list is refused %s", text, clients, use, which, until)
}

// missing returns the addresses in some lists that are not in others.
func missing(all, in [][]string) (addrs []string) {
	for _, addr := range slices.Concat(all...) {
		if !slices.Contains(slices.Concat(in...), addr) && !slices.Contains(addrs, addr) {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}
