// Package endpoint knows what a URL says of a server, and how to tell that what answers there is another: no Redis
// server, no TLS, or a certificate that is not accepted.
//
// It dials nothing and knows no requests; errors name what to write instead.
package endpoint

import (
	"cmp"
	"errors"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// URL is what a URL says of a server.
type URL struct {
	Network, Address   string
	Username, Password string
	DB                 int
	TLS                bool
}

// String names the server for humans, without user and password.
func (s URL) String() string {
	if s.Network == "unix" {
		return "unix://" + s.Address
	}
	return s.Address
}

var (
	errNoURL = errors.New("not a URL such as redis://user:password@host:6379/0, and not host:port")
	// errUnescaped is for a text in which an @ is left over: a / or ? or # in a password ends the host there.
	errUnescaped = errors.New("not a URL such as redis://user:password@host:6379/0: percent-encode what is special in " +
		"user and password, such as @ / # ? % (as %40 %2F %23 %3F %25)")
)

// isList reports whether a text is URLs, separated by commas or blanks. As a password may have these, all must be URLs.
func isList(raw string) bool {
	parts := strings.FieldsFunc(raw, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	return len(parts) > 1 && !slices.ContainsFunc(parts, func(part string) bool {
		_, err := Parse(part)
		return err != nil
	})
}

// Parse parses redis://, rediss:// and unix:// URLs. What has no scheme, such as host:port, is the rest of a
// redis:// URL. Its errors quote nothing that may be part of a password.
func Parse(raw string) (URL, error) {
	u, err := split(raw)
	if err != nil {
		return URL{}, err
	}
	s := URL{Network: "tcp"}
	if u.User != nil {
		s.Username = u.User.Username()
		var set bool
		if s.Password, set = u.User.Password(); !set { // redis-cli, too, reads redis://secret@host as a password
			s.Username, s.Password = "", s.Username
		}
	}
	db, query := strings.TrimPrefix(u.Path, "/"), u.Query()
	switch u.Scheme {
	case "redis", "valkey":
	case "rediss", "valkeys":
		s.TLS = true
	case "unix":
		s.Network, s.Address, db = "unix", u.Path, query.Get("db")
		if u.Host != "" || s.Address == "" {
			return URL{}, errors.New("a unix URL needs three slashes and a path: unix:///run/redis.sock")
		}
		delete(query, "db")
	default:
		return URL{}, unknownScheme(u.Scheme)
	}
	if len(query) > 0 {
		return URL{}, errors.New("unknown query parameter; options are given to New")
	}
	if s.Network == "tcp" {
		if s.Address, err = hostPort(u); err != nil {
			return URL{}, err
		}
	}
	if s.DB, err = strconv.Atoi(cmp.Or(db, "0")); err != nil || s.DB < 0 {
		return URL{}, errors.New("the database must be a number, as in redis://host:6379/2")
	}
	return s, nil
}

// split takes a URL apart, whatever its scheme.
func split(raw string) (*url.URL, error) {
	if raw == "" {
		return nil, errNoURL
	}
	if !strings.Contains(raw, "://") {
		raw = "redis://" + raw
	}
	u, err := url.Parse(raw)
	switch {
	case (err != nil || strings.ContainsAny(u.Host+u.Path, ", ")) && isList(raw):
		return nil, errors.New("this is more than one node: redlock.ParseNodes splits it")
	case err != nil && strings.Contains(raw, "@"):
		return nil, errUnescaped
	case err != nil || u.Opaque != "" || u.Scheme == "":
		return nil, errNoURL
	case strings.Contains(u.RawQuery+u.Fragment, "@"),
		strings.Contains(u.Path, "@") && (u.Scheme != "unix" || u.Host != ""): // the path of a socket may have any character
		return nil, errUnescaped
	default:
		return u, nil
	}
}

// unknownScheme names the scheme if it is a common one: any other may be the beginning of a password.
func unknownScheme(scheme string) error {
	unknown := "unknown scheme"
	if slices.Contains([]string{"http", "https", "ftp", "tcp", "tls", "ssl"}, scheme) {
		unknown += " " + strconv.Quote(scheme)
	}
	return errors.New(unknown + ": use redis, rediss (TLS) or unix")
}

// hostPort returns the address of a server that is reached by TCP.
func hostPort(u *url.URL) (string, error) {
	host, port := u.Hostname(), cmp.Or(u.Port(), "6379")
	switch p, err := strconv.Atoi(port); {
	case host == "":
		return "", errors.New("no host")
	case strings.Contains(host, ":") && u.Host[0] != '[':
		return "", errors.New("an IPv6 address needs brackets, as in redis://[::1]:6379")
	case err != nil || p < 1 || p > 65535:
		return "", errors.New("port out of range 1 to 65535")
	}
	return net.JoinHostPort(strings.ToLower(host), port), nil
}

// SplitURL returns a URL without user and password, its address as URL.String has it, and the two. Errors: as of Parse.
func SplitURL(raw string) (bare, addr, user, password string, err error) {
	at, err := Parse(raw)
	if err != nil {
		return "", "", "", "", err
	}
	scheme, rest, found := strings.Cut(raw, "://")
	if !found {
		scheme, rest = "redis", raw
	}
	authority, path := rest, ""
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority, path = rest[:end], rest[end:]
	}
	host := authority[strings.LastIndex(authority, "@")+1:]
	return scheme + "://" + host + path, at.String(), at.Username, at.Password, nil
}
