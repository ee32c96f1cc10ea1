package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

func cmdPing(x *call) any {
	switch {
	case len(x.args) > 2:
		return wrongArgs(x.args[0])
	case len(x.client.subs) > 0 && x.client.proto != 3:
		return []any{"pong", strings.Join(x.args[1:], "")}
	case len(x.args) == 2:
		return x.args[1]
	}
	return Status("PONG")
}

func cmdEcho(x *call) any { return x.args[1] }

func cmdQuit(x *call) any {
	x.client.closing = true
	return OK
}

func cmdAuth(x *call) any {
	user, pass := "default", x.args[1]
	if len(x.args) == 3 {
		user, pass = x.args[1], x.args[2]
	} else if len(x.args) > 3 {
		return errSyntax
	}
	if x.password == "" && len(x.args) == 2 {
		return Error("ERR AUTH <password> called without any password configured for the default user. " +
			"Are you sure your configuration is correct?")
	}
	if user != "default" || x.password != "" && pass != x.password {
		return Error("WRONGPASS invalid username-password pair or user is disabled.")
	}
	x.client.authed = true
	return OK
}

func cmdSelect(x *call) any {
	db, ok := parseInt(x.args[1])
	switch {
	case !ok:
		return errNotInt
	case db < 0 || db >= int64(len(x.data)):
		return Error("ERR DB index is out of range")
	}
	x.client.db = int(db)
	return OK
}

// cmdHello knows no options.
func cmdHello(x *call) any {
	if len(x.args) > 1 {
		proto, ok := parseInt(x.args[1])
		switch {
		case !ok:
			return Error("ERR Protocol version is not an integer or out of range")
		case proto != 2 && proto != 3:
			return Error("NOPROTO unsupported protocol version")
		case len(x.args) > 2:
			return Error("ERR Syntax error in HELLO option '" + x.args[2] + "'")
		case !x.client.authed:
			return Error("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> " +
				"AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at " +
				"the same time")
		}
		x.client.proto = proto
	}
	return []any{
		"server", "redis", "version", version, "proto", max(2, x.client.proto), "id", x.client.id, "mode", "standalone",
		"role", x.role(), "modules",
		[]any{},
	}
}

func cmdClient(x *call) any {
	switch sub := strings.ToLower(x.args[1]); {
	case sub == "setname" && len(x.args) == 3:
		x.client.name = x.args[2]
		return OK
	case sub == "getname" && len(x.args) == 2:
		if x.client.name == "" {
			return nil
		}
		return x.client.name
	case sub == "id" && len(x.args) == 2:
		return x.client.id
	case sub == "no-evict" && len(x.args) == 3:
		return OK
	}
	// SETINFO came with 7.2; the model is a 7.0, whose answer a client must bear.
	return Error(fmt.Sprintf("ERR unknown subcommand '%.128s'. Try CLIENT HELP.", x.args[1]))
}

func cmdTime(x *call) any {
	t := x.clock.now()
	return []any{itoa(t.Unix()), itoa(int64(t.Nanosecond() / 1000))}
}

func (n *Node) role() string {
	if n.master != "" {
		return "slave"
	}
	return "master"
}

func cmdRole(x *call) any {
	if x.master != "" {
		host, port, _ := strings.Cut(x.master, ":")
		p, _ := parseInt(port)
		state := "connected"
		if x.noMaster {
			state = "connect"
		}
		return []any{"slave", host, p, state, int64(0)}
	}
	return []any{"master", int64(0), []any{}}
}

func cmdConfig(x *call) any {
	switch sub := strings.ToLower(x.args[1]); {
	case sub == "get" && len(x.args) >= 3:
		r := []any{}
		for _, name := range slices.Sorted(maps.Keys(x.config)) {
			for _, pattern := range x.args[2:] {
				if glob(strings.ToLower(pattern), name) {
					r = append(r, name, x.config[name])
					break
				}
			}
		}
		return r
	case sub == "set" && len(x.args) >= 4 && len(x.args)%2 == 0:
		for i := 2; i < len(x.args); i += 2 {
			if _, ok := x.config[strings.ToLower(x.args[i])]; !ok {
				return Error("ERR Unknown option or number of arguments for CONFIG SET - '" + x.args[i] + "'")
			}
		}
		for i := 2; i < len(x.args); i += 2 {
			x.config[strings.ToLower(x.args[i])] = x.args[i+1]
		}
		return OK
	case sub == "resetstat":
		clear(x.calls)
		return OK
	}
	return Error(fmt.Sprintf("ERR unknown subcommand or wrong number of arguments for '%.128s'. Try CONFIG HELP.",
		x.args[1]))
}
