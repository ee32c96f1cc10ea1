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
		case "PEXPIREAT":
			if len(args) > 1 { // miniredis compares it with the process's clock
				if at, err := strconv.ParseInt(args[1], 10, 64); err == nil {
					args[1] = strconv.FormatInt(at-id.clock.skew().Milliseconds(), 10)
				}
			}
			return false
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

// info answers with the sections that the client names, or all of them.
func (id *identity) info(p *server.Peer, srv *server.Server, names []string) {
	all := len(names) == 0
	wanted := map[string]bool{}
	for _, name := range names {
		name = strings.ToLower(name)
		wanted[name] = true
		all = all || name == "all" || name == "default" || name == "everything"
	}
	var chosen []string
	for _, s := range id.sections(srv) {
		if name, _, _ := strings.Cut(s[2:], "\n"); all || wanted[strings.ToLower(name)] {
			chosen = append(chosen, s)
		}
	}
	p.WriteBulk(strings.ReplaceAll(strings.Join(chosen, "\n"), "\n", "\r\n"))
}

// sections are those of INFO, in the order of Redis.
func (id *identity) sections(srv *server.Server) []string {
	now := id.clock.now()
	id.mu.Lock()
	defer id.mu.Unlock()
	aof := 0
	if id.config["appendonly"] == "yes" {
		aof = 1
	}
	return []string{
		"# Server\nredis_version:7.4.0\nserver_name:redlocktest\nredis_mode:standalone\n" +
			fmt.Sprintf("process_id:%d\nrun_id:%s\ntcp_port:%s\nserver_time_usec:%d\nuptime_in_seconds:%d\n",
				os.Getpid(), id.runID, id.port, now.UnixMicro(), now.Sub(id.born)/time.Second),
		fmt.Sprintf("# Clients\nconnected_clients:%d\n", srv.ClientsLen()),
		fmt.Sprintf("# Memory\nmaxmemory:%s\nmaxmemory_policy:%s\n", id.config["maxmemory"], id.config["maxmemory-policy"]),
		fmt.Sprintf("# Persistence\nloading:0\nasync_loading:0\naof_enabled:%d\n", aof),
		fmt.Sprintf("# Stats\ntotal_connections_received:%d\ntotal_commands_processed:%d\n",
			srv.TotalConnections(), srv.TotalCommands()),
		fmt.Sprintf("# Replication\nrole:master\nconnected_slaves:0\nmaster_failover_state:no-failover\n"+
			"master_replid:%s\nmaster_replid2:%040d\nmaster_repl_offset:0\nsecond_repl_offset:-1\n", id.replID, 0),
		"# Cluster\ncluster_enabled:0\n",
	}
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
