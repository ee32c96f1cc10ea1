// Package redlockgoredis takes the masters from options of go-redis (github.com/redis/go-redis/v9), so that a program
// says once where they are and how to log in.
//
// redlock makes its own connections, one to each node: the order of undos and what is known of restarts rest on that.
// So pools, retries and time-outs have no meaning here; redlock.WithNodeTimeout says how long a node may take, 250 ms
// by default. What cannot be carried over is an error that names the field: clear it in a copy. The table of
// [all fields] says what becomes of each.
//
// [all fields]: https://github.com/quorumlock/redlock/blob/main/goredis/fields.txt
package redlockgoredis

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/url"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/redlock"
)

// Nodes returns what redlock.New takes: the masters' URLs in the order of their options, without passwords, and for
// redlock.WithNodeConfig how they are reached. For redlock.WithNewNodes, give each master of both lists once, and make
// the lists of these URLs. Errors satisfy errors.Is for redlock.ErrInvalid, and contain no values.
//
// Each master may have its own credentials, and its own Dialer, which makes the TLS connection, too, as in go-redis.
// All TLSConfigs must be one pointer, or differ only in ServerNames that are the hosts, as those of redis.ParseURL do.
func Nodes(masters ...*redis.Options) (urls []string, config redlock.NodeConfig, err error) {
	all := make(nodes)
	config.Credentials = all.credentials
	for i, o := range masters {
		n, err := newNode(o)
		switch {
		case err != nil:
		case all[n.at] != nil:
			err = refusal("Addr", "another node has the same, so it would have two votes")
		case n.Dialer != nil:
			config.Dial = all.dial
		case n.TLSConfig != nil:
			own := n.TLSConfig
			if strings.EqualFold(own.ServerName, n.url.Hostname()) { // as redlock does by itself
				own = own.Clone()
				own.ServerName = ""
			}
			config.TLS = cmp.Or(config.TLS, own)
			if own != config.TLS && !reflect.DeepEqual(own.Clone(), config.TLS.Clone()) { // others may use their mutexes
				err = refusal("TLSConfig", "not that of the others: leave out ServerName, and give all the same pointer")
			}
		}
		if err != nil {
			return nil, redlock.NodeConfig{}, fmt.Errorf("%w: node %d: %w", redlock.ErrInvalid, i+1, err)
		}
		all[n.at], urls = n, append(urls, n.url.String())
	}
	return urls, config, nil
}

// UniversalNodes is [Nodes] for the masters at the Addrs, which have all else in common.
func UniversalNodes(o *redis.UniversalOptions) (urls []string, config redlock.NodeConfig, err error) {
	if err := check(o); err != nil {
		return nil, redlock.NodeConfig{}, fmt.Errorf("%w: %w", redlock.ErrInvalid, err)
	}
	masters := make([]*redis.Options, len(o.Addrs))
	for i, addr := range o.Addrs {
		masters[i] = o.Simple()
		masters[i].Addr = addr
	}
	return Nodes(masters...)
}

// node is one master.
type node struct {
	redis.Options // a copy

	url url.URL
	at  string // what redlock gives to Dial, and with unix:// before a socket to Credentials
}

func newNode(o *redis.Options) (*node, error) {
	if err := check(o); err != nil {
		return nil, err
	}
	n := &node{Options: *o}
	n.Addr = cmp.Or(n.Addr, "localhost:6379") // go-redis's default, as is the network
	if n.Network == "" && n.Addr[0] == '/' {
		n.Network = "unix"
	}
	secure, db := n.TLSConfig != nil && n.Dialer == nil, strconv.Itoa(n.DB)
	switch host, port, err := net.SplitHostPort(n.Addr); {
	case n.DB < 0:
		return nil, refusal("DB", "it is negative")
	case n.Network == "unix" && !secure:
		n.at, n.url = n.Addr, url.URL{Scheme: "unix", Path: n.Addr, RawQuery: "db=" + db}
	case n.Network != "" && n.Network != "tcp":
		return nil, refusal("Network", "want tcp, or unix without TLSConfig")
	case err == nil && port != "":
		n.at = net.JoinHostPort(strings.ToLower(cmp.Or(host, "localhost")), port)
		n.url = url.URL{Scheme: "redis", Host: n.at, Path: "/" + db}
		if secure {
			n.url.Scheme = "rediss"
		}
	}
	if back, err := url.Parse(n.url.String()); err != nil || n.at == "" || back.Host != n.url.Host {
		return nil, refusal("Addr", "want a host, a colon and a port's number, or a unix socket's absolute path")
	}
	return n, nil
}

// nodes are the masters by where they are.
type nodes map[string]*node

func (all nodes) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if n := all[address]; n != nil && n.Dialer != nil {
		return n.Dialer(ctx, network, n.Addr)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

func (all nodes) credentials(ctx context.Context, addr string) (user, password string, err error) {
	switch n := all[strings.TrimPrefix(addr, "unix://")]; { // in go-redis's order
	case n == nil:
		err = errors.New("go-redis has no options for this node")
	case n.CredentialsProviderContext != nil:
		user, password, err = n.CredentialsProviderContext(ctx)
	case n.CredentialsProvider != nil:
		user, password = n.CredentialsProvider()
	default:
		user, password = n.Username, n.Password
	}
	return user, password, err
}

//go:embed fields.txt
var table string

// check returns an error for the first field that is set and cannot be carried over.
func check(options any) error {
	v := reflect.ValueOf(options)
	if v.IsNil() {
		return errors.New("the options are nil")
	}
	for field, value := range v.Elem().Fields() {
		if !field.IsExported() || value.IsZero() {
			continue
		}
		row := regexp.MustCompile(`(?m)^(\w+) \|[^|]*\b` + field.Name + `\b[^|]*\| (.*)$`).FindStringSubmatch(table)
		switch {
		case row == nil:
			return refusal(field.Name, "this version of redlock does not know it")
		case row[1] == "refused":
			return refusal(field.Name, row[2])
		}
	}
	return nil
}

func refusal(field, why string) error { return fmt.Errorf("%s: %s", field, why) }
