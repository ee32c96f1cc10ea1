package agreement

import (
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/redlock/internal/lua"
	"github.com/quorumlock/redlock/internal/quorum"
)

// Each client tells the nodes its lists, quorum.NodeLists, and learns which others are in use. Here they are texts.

// Conflict says that clients are at work whose lists of nodes and this client's do not exclude each other.
type Conflict struct {
	Node  string     // the address of the node that says so
	Own   [][]string // the addresses of this client's nodes: one list, or the old and the new one
	Other [][]string // those of the other clients
	Apart []string   // addresses by which they reach other masters than this client does
}

const (
	// registrationLives is for how long a node counts a client that does not confirm its registration, at least (see
	// registry.lives), and for how long a client may be silent without becoming a newcomer.
	registrationLives = time.Minute
	// longestLife bounds that. Where a clock is set back by more, what seems to be from the future goes: see lists.lua.
	longestLife = time.Hour
)

// unmet stands before the id of a node that the client has not met yet, or not lately.
const unmet = "?"

// listsText returns lists as nodes keep them: "id@address id@address|id@address …", the nodes of a list in order, and
// behind that the life of the registration in minutes, if that is not one: "id@address …|8". So everybody knows how
// long the text may stay after its last client has crashed; clients with shorter lives do not keep it.
func listsText(l quorum.NodeLists, life time.Duration) string {
	var lists []string
	for _, list := range l {
		var nodes []string
		for _, n := range list {
			word := n.ID + "@" + addrEscaper.Replace(n.Addr)
			if !n.Met() {
				word = unmet + word
			}
			nodes = append(nodes, word)
		}
		slices.Sort(nodes)
		lists = append(lists, strings.Join(nodes, " "))
	}
	if life != registrationLives {
		lists = append(lists, strconv.Itoa(int(life.Minutes())))
	}
	return strings.Join(lists, "|")
}

// The path of a Unix socket may have any character in it.
var (
	addrEscaper   = strings.NewReplacer("%", "%25", " ", "%20", "|", "%7C", "\n", "%0A", "\r", "%0D")
	addrUnescaper = strings.NewReplacer("%25", "%", "%20", " ", "%7C", "|", "%0A", "\n", "%0D", "\r")
)

// parseNodeLists reads what listsText has written. It returns no lists for what may come from another version.
func parseNodeLists(text string) (l quorum.NodeLists, life time.Duration) {
	parts, life := strings.Split(text, "|"), registrationLives
	if last := len(parts) - 1; !strings.Contains(parts[last], "@") {
		minutes, err := strconv.Atoi(parts[last])
		if err != nil || minutes < 2 || minutes > int(longestLife.Minutes()) {
			return nil, registrationLives
		}
		parts, life = parts[:last], time.Duration(minutes)*time.Minute
	}
	for _, part := range parts {
		var list []quorum.ListedNode
		for word := range strings.FieldsSeq(part) {
			id, addr, found := strings.Cut(word, "@")
			id, stale := strings.CutPrefix(id, unmet)
			if !found || id == "" && !stale || addr == "" || len(list) == quorum.MaxNodes {
				return nil, registrationLives
			}
			list = append(list, quorum.ListedNode{ID: id, Addr: addrUnescaper.Replace(addr), Stale: stale && id != ""})
		}
		if len(list) == 0 || len(l) == 2 {
			return nil, registrationLives
		}
		l = append(l, list)
	}
	return l, life
}

// usedLists are the lists that a node says are in use. They never change, and are the same for all who know the digest.
type usedLists struct {
	digest string
	texts  []string
	sums   [][20]byte         // by text: SHA-1
	lists  []quorum.NodeLists // by text; nil: it comes from another version
	lives  []time.Duration    // by text: for how long it counts after a client has confirmed it
	clash  func() bool        // reports whether two of them conflict

	mu       sync.Mutex
	verdicts map[*usedLists]listsVerdict // what judge has returned; guarded by mu
}

// listsVerdict is how lists that are in use go together with a client's own ones.
type listsVerdict struct {
	conflicts []int // by index: lists that conflict
	doubtful  []int // by index: lists that conflict, too, unless a node has lost its data lately
	same      []int // by index: the own lists
}

// judge compares the lists with a client's own, and keeps what it finds: all Lockers of a process ask again and again.
func (u *usedLists) judge(own *usedLists) listsVerdict {
	u.mu.Lock()
	defer u.mu.Unlock()
	v, judged := u.verdicts[own]
	if judged {
		return v
	}
	ours, stale := own.lists[0], own.lists[0].AllStale()
	for i, l := range u.lists {
		if l != nil && ours.Same(l) {
			v.same = append(v.same, i)
		}
		switch {
		case l == nil || ours.Exclude(l):
		case stale.Exclude(l):
			v.doubtful = append(v.doubtful, i)
		default:
			v.conflicts = append(v.conflicts, i)
		}
	}
	if u.verdicts == nil || len(u.verdicts) >= maxKnown {
		u.verdicts = make(map[*usedLists]listsVerdict)
	}
	u.verdicts[own] = v
	return v
}

// digestOf returns the digest of lists, as lists.lua forms it.
func digestOf(texts ...string) string {
	sum := lua.SHA1(strings.Join(texts, "\n"))
	return hex.EncodeToString(sum[:])
}

// knownLists are the lists that this process has read lately, by their digest. So it parses once what all nodes say to
// all its Lockers, again and again, and what they say at one moment.
var knownLists = listsCache{of: make(map[string]func() *usedLists)}

type listsCache struct {
	mu sync.Mutex
	of map[string]func() *usedLists // which parses once; guarded by mu
}

// find returns the lists with that digest, or nil.
func (c *listsCache) find(digest string) *usedLists {
	c.mu.Lock()
	known := c.of[digest]
	c.mu.Unlock()
	if known == nil {
		return nil
	}
	return known()
}

// maxKnown is how many digests are kept: there are seldom more than two at a time.
const maxKnown = 16

// read returns the lists with these texts.
func (c *listsCache) read(texts []string) *usedLists {
	digest := digestOf(texts...)
	c.mu.Lock()
	known := c.of[digest]
	if known == nil {
		if len(c.of) >= maxKnown {
			clear(c.of)
		}
		known = sync.OnceValue(func() *usedLists { return parseLists(digest, texts) })
		c.of[digest] = known
	}
	c.mu.Unlock()
	return known()
}

func parseLists(digest string, texts []string) *usedLists {
	used := &usedLists{
		digest: digest, texts: texts, lists: make([]quorum.NodeLists, len(texts)), lives: make([]time.Duration, len(texts)),
	}
	for i, text := range texts {
		used.sums = append(used.sums, lua.SHA1(text))
		used.lists[i], used.lives[i] = parseNodeLists(text)
	}
	used.clash = sync.OnceValue(func() bool {
		for i, a := range used.lists {
			stale := a.AllStale()
			for _, b := range used.lists[i+1:] {
				if a != nil && b != nil && !stale.Exclude(b) {
					return true
				}
			}
		}
		return false
	})
	return used
}
