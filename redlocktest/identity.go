package redlocktest

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// identity answers what a client asks to learn whom it is talking to: INFO, ROLE, CONFIG and TIME.
// miniredis knows only TIME and two sections of INFO.
type identity struct {
	clock  *skewedClock
	born   time.Time
	port   string
	runID  string
	replID string

	mu     *sync.Mutex // guards config
	config map[string]string
}

func newIdentity(addr string, clock *skewedClock, born time.Time) identity {
	_, port, _ := net.SplitHostPort(addr)
	return identity{
		clock: clock, born: born, port: port,
		runID: randomID(), replID: randomID(),
		mu: &sync.Mutex{},
		config: map[string]string{
			"appendonly":                "no",
			"appendfsync":               "everysec",
			"no-appendfsync-on-rewrite": "no",
			"save":                      "",
			"maxmemory":                 "0",
			"maxmemory-policy":          "noeviction",
			"min-replicas-to-write":     "0",
			"databases":                 "16",
		},
	}
}

// randomID looks like Redis' run_id and master_replid: 40 hex digits.
func randomID() string {
	var b [20]byte
	rand.Read(b[:]) // crypto/rand.Read never returns an error
	return hex.EncodeToString(b[:])
}

func (id *identity) install(store *miniredis.Miniredis) error {
	srv := store.Server()
	if err := srv.Register("ROLE", id.role); err != nil {
		return err
	}
	if err := srv.Register("CONFIG", id.configCmd); err != nil {
		return err
	}
	// What miniredis has registered itself can only be taken over before it gets there. The hook also sees
	// the commands of scripts.
	srv.SetPreHook(func(p *server.Peer, cmd string, args ...string) bool {
		switch cmd {
		case "INFO":
			id.info(p, srv, args)
		case "TIME":
			now := id.clock.now()
			p.Block(func(w *server.Writer) {
				w.WriteStrings([]string{
					strconv.FormatInt(now.Unix(), 10),
					strconv.Itoa(now.Nanosecond() / 1000),
				})
			})
		case "HELLO":
			// miniredis takes no commands on a subscribed connection, which RESP3 is for.
			p.WriteError("NOPROTO unsupported protocol version")
		default:
			return false
		}
		return true
	})
	return nil
}

func (id *identity) role(p *server.Peer, _ string, _ []string) {
	p.Block(func(w *server.Writer) {
		w.WriteLen(3)
		w.WriteBulk("master")
		w.WriteInt(0)
		w.WriteLen(0)
	})
}

// infoSections is the order in which Redis prints them.
var infoSections = []string{"server", "clients", "memory", "persistence", "stats", "replication", "cluster"}

func (id *identity) info(p *server.Peer, srv *server.Server, args []string) {
	wanted := map[string]bool{}
	for _, a := range args {
		switch a = strings.ToLower(a); a {
		case "all", "default", "everything":
			args = nil
		default:
			wanted[a] = true
		}
	}
	var b strings.Builder
	for _, s := range infoSections {
		if len(args) > 0 && !wanted[s] {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\r\n")
		}
		fmt.Fprintf(&b, "# %s\r\n", strings.ToUpper(s[:1])+s[1:])
		for _, line := range id.infoSection(s, srv) {
			b.WriteString(line + "\r\n")
		}
	}
	p.WriteBulk(b.String())
}

func (id *identity) infoSection(section string, srv *server.Server) []string {
	now := id.clock.now()
	uptime := int64(now.Sub(id.born) / time.Second)
	get := func(key string) string {
		id.mu.Lock()
		defer id.mu.Unlock()
		return id.config[key]
	}
	switch section {
	case "server":
		return []string{
			"redis_version:7.4.0",
			"server_name:redlocktest",
			"redis_mode:standalone",
			"arch_bits:64",
			fmt.Sprintf("process_id:%d", os.Getpid()),
			"run_id:" + id.runID,
			"tcp_port:" + id.port,
			fmt.Sprintf("server_time_usec:%d", now.UnixMicro()),
			fmt.Sprintf("uptime_in_seconds:%d", uptime),
			fmt.Sprintf("uptime_in_days:%d", uptime/(24*60*60)),
		}
	case "clients":
		return []string{fmt.Sprintf("connected_clients:%d", srv.ClientsLen())}
	case "memory":
		return []string{"maxmemory:" + get("maxmemory"), "maxmemory_policy:" + get("maxmemory-policy")}
	case "persistence":
		aof := "0"
		if get("appendonly") == "yes" {
			aof = "1"
		}
		return []string{"loading:0", "async_loading:0", "aof_enabled:" + aof}
	case "stats":
		return []string{
			fmt.Sprintf("total_connections_received:%d", srv.TotalConnections()),
			fmt.Sprintf("total_commands_processed:%d", srv.TotalCommands()),
		}
	case "replication":
		return []string{
			"role:master",
			"connected_slaves:0",
			"master_failover_state:no-failover",
			"master_replid:" + id.replID,
			"master_replid2:" + strings.Repeat("0", 40),
			"master_repl_offset:0",
			"second_repl_offset:-1",
		}
	case "cluster":
		return []string{"cluster_enabled:0"}
	}
	return nil
}

// configCmd knows GET with patterns, and SET of what GET knows: enough to misconfigure a node on purpose.
func (id *identity) configCmd(p *server.Peer, _ string, args []string) {
	if len(args) < 2 {
		p.WriteError("ERR wrong number of arguments for 'config' command")
		return
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	switch sub, args := strings.ToUpper(args[0]), args[1:]; {
	case sub == "GET":
		found := map[string]string{}
		for key, value := range id.config {
			for _, pattern := range args {
				if ok, _ := path.Match(strings.ToLower(pattern), key); ok {
					found[key] = value
				}
			}
		}
		p.Block(func(w *server.Writer) {
			w.WriteMapLen(len(found))
			for _, key := range slices.Sorted(maps.Keys(found)) {
				w.WriteBulk(key)
				w.WriteBulk(found[key])
			}
		})
	case sub == "SET" && len(args)%2 == 0:
		for i := 0; i < len(args); i += 2 {
			if _, ok := id.config[strings.ToLower(args[i])]; !ok {
				p.WriteError(fmt.Sprintf("ERR Unknown option or number of arguments for CONFIG SET - '%s'", args[i]))
				return
			}
		}
		for i := 0; i < len(args); i += 2 {
			id.config[strings.ToLower(args[i])] = args[i+1]
		}
		p.WriteOK()
	default:
		p.WriteError(fmt.Sprintf("ERR unknown subcommand or wrong number of arguments for '%s'", sub))
	}
}
