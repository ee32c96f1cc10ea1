//go:build unix

package redlockgoredis_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/redis/go-redis/v9/push"

	"github.com/quorumlock/redlock"
	redlockgoredis "github.com/quorumlock/redlock/goredis"
	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/redisserver"
)

// secret is what no error may show: it has what is special in URLs.
const secret = "p:a@s/s?w#o%r,d"

// fates returns the rows of the table by field.
func fates(t *testing.T) map[string][]string {
	t.Helper()
	rows := make(map[string][]string)
	for at, row := range cases.Rows(t, "fields.txt", 3) {
		for field := range strings.FieldsSeq(row[1]) {
			if rows[field] != nil {
				t.Errorf("%s: %s is there twice", at, field)
			}
			rows[field] = row
		}
	}
	return rows
}

func nodes(options any) ([]string, redlock.NodeConfig, error) {
	if o, ok := options.(*redis.UniversalOptions); ok {
		return redlockgoredis.UniversalNodes(o)
	}
	return redlockgoredis.Nodes(options.(*redis.Options))
}

// anything has the methods of all interfaces that fields have.
type anything struct {
	redis.Limiter
	redis.Cache
	auth.StreamingCredentialsProvider
	push.NotificationProcessor
}

// set gives a field some value.
func set(field reflect.Value) {
	switch field.Kind() {
	case reflect.Func:
		field.Set(reflect.MakeFunc(field.Type(), nil))
	case reflect.Pointer:
		field.Set(reflect.New(field.Type().Elem()))
	case reflect.Interface:
		field.Set(reflect.ValueOf(anything{}))
	case reflect.String:
		field.SetString("secret")
	case reflect.Bool:
		field.SetBool(true)
	default:
		field.SetInt(1)
	}
}

// Each field of the two types has a row. A field that is new in go-redis has none, and fails here.
func TestEveryFieldHasAFate(t *testing.T) {
	rows, exist := fates(t), make(map[string]bool)
	for _, usual := range []any{redis.Options{Addr: "r1:1"}, redis.UniversalOptions{Addrs: []string{"r1:1"}}} {
		for field := range reflect.TypeOf(usual).Fields() {
			if exist[field.Name] = true; !field.IsExported() {
				continue
			}
			row := rows[field.Name]
			if row == nil {
				t.Fatalf("%s is not in fields.txt: what becomes of it?", field.Name)
			}
			if row[0] == "carried" { // see TestWhatIsCarried
				continue
			}
			options := reflect.New(reflect.TypeOf(usual))
			options.Elem().Set(reflect.ValueOf(usual))
			set(options.Elem().FieldByIndex(field.Index))
			urls, config, err := nodes(options.Interface())
			ignored := err == nil && slices.Equal(urls, []string{"redis://r1:1/0"}) && config.Dial == nil && config.TLS == nil
			refused := errors.Is(err, redlock.ErrInvalid) && strings.HasSuffix(err.Error(), field.Name+": "+row[2])
			if ignored != (row[0] == "ignored") || refused != (row[0] == "refused") {
				t.Errorf("%s is %s, but got %v, %v, %v", field.Name, row[0], urls, config, err)
			}
		}
	}
	for field := range rows {
		if !exist[field] {
			t.Errorf("fields.txt: go-redis has no %s", field)
		}
	}
}

func TestBadValues(t *testing.T) {
	one := redis.Options{Addr: "r1:6379"}
	for want, bad := range map[string][]*redis.Options{
		"node 1: Addr": {{Addr: "redis://u:secret@r1:6379"}}, "Addr": {{Addr: "secret"}}, "Addr: want": {{Addr: "secret:"}},
		": Addr: want": {{Addr: "r1:secret"}}, "1: Addr": {{Addr: "u:secret@r1:1"}}, "want a host": {{Addr: "se@cret:1"}},
		"absolute": {{Network: "unix", Addr: "secret"}}, "Network": {{Network: "tcp6"}}, "DB": {{DB: -1, Password: "secret"}},
		"unix without TLSConfig": {{Addr: "/secret", TLSConfig: &tls.Config{}}}, "nil": {nil},
		"node 2: Addr": {&one, {Addr: "R1:6379", DB: 1}},
		"node 2: TLSConfig": {
			{Addr: "r1:1", TLSConfig: &tls.Config{ServerName: "r1"}}, {Addr: "r2:1", TLSConfig: &tls.Config{ServerName: "r1"}},
		},
	} {
		_, _, err := redlockgoredis.Nodes(bad...)
		if text := fmt.Sprint(err); !errors.Is(err, redlock.ErrInvalid) || !strings.Contains(text, want) ||
			strings.Contains(text, "secret") {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	a, b := cases.Must(redis.ParseURL("rediss://r1"))(t), cases.Must(redis.ParseURL("rediss://r2/1"))(t)
	urls, config, err := redlockgoredis.Nodes(a, b, &redis.Options{Addr: ":1"}, &redis.Options{})
	want := "rediss://r1:6379/0 rediss://r2:6379/1 redis://localhost:1/0 redis://localhost:6379/0"
	if got := strings.Join(urls, " "); err != nil || got != want || config.TLS.ServerName != "" {
		t.Errorf("got %s, %v, %v, want %s", got, config.TLS, err, want)
	}
}

// With the same options, a lock is where go-redis looks for it, on real servers. Each carried field is tried.
func TestWhatIsCarried(t *testing.T) {
	ca := cases.Must(redisserver.NewAuthority())(t)
	launch := func(c redisserver.Config) *redisserver.Server {
		server := cases.Must(redisserver.Launch(t.Context(), c))(t)
		t.Cleanup(func() { _ = server.Remove(context.Background()) })
		return server
	}
	plain := launch(redisserver.Config{
		Args:     []string{"--requirepass", secret, "--user", "app", "on", ">" + secret + "2", "~*", "&*", "+@all"},
		Password: secret,
	})
	secure := launch(redisserver.Config{Args: ca.Args(), Files: ca.Files()}).Addr()
	app := func() (string, string) { return "app", secret + "2" }
	wrong := func() (string, string) { return "app", "wrong" }
	ask := func(context.Context) (string, string, error) { return "app", secret + "2", nil }
	dial := func(ctx context.Context, _, addr string) (net.Conn, error) {
		if addr != "Elsewhere:1" {
			return nil, errors.New("dialled " + addr)
		}
		return new(net.Dialer).DialContext(ctx, "unix", plain.Socket())
	}
	tried := make(map[string]bool)
	for _, options := range []any{
		&redis.Options{Addr: plain.Addr(), Password: secret, DB: 3},
		&redis.Options{Addr: plain.Addr(), Username: "app", Password: secret + "2"},
		&redis.Options{Addr: plain.Socket(), CredentialsProvider: app, Password: "wrong", DB: 4},
		&redis.Options{Network: "unix", Addr: plain.Socket(), CredentialsProviderContext: ask, CredentialsProvider: wrong},
		&redis.Options{Addr: "Elsewhere:1", Dialer: dial, Password: secret},
		&redis.Options{Addr: secure, TLSConfig: ca.ClientConfig()},
		&redis.UniversalOptions{Addrs: []string{secure}, TLSConfig: ca.ClientConfig(), DB: 5},
		redis.NewClient(&redis.Options{Addr: secure, TLSConfig: ca.ClientConfig()}).Options(), // with a Dialer
	} {
		for field, value := range reflect.ValueOf(options).Elem().Fields() {
			tried[field.Name] = tried[field.Name] || !value.IsZero()
		}
		own, ok := options.(*redis.Options)
		if !ok {
			own = options.(*redis.UniversalOptions).Simple()
		}
		client := redis.NewClient(own)
		urls, config, err := nodes(options)
		cases.NoError(t, err)
		config.NoRestartGuard = true // the servers have just been started
		locker := cases.Must(redlock.New(urls, redlock.WithNodeConfig(config), redlock.WithNodeTimeout(5*time.Second)))(t)
		lock := cases.Must(locker.TryLock(t.Context(), "carried"))(t)
		cases.Equals(t, cases.Must(client.Exists(t.Context(), "carried").Result())(t), 1, "%v: the lock's key", urls)
		if text := strings.Join(urls, " "); strings.Contains(text, "p:a") || strings.Contains(text, "p%3A") {
			t.Errorf("a URL has the password: %s", text)
		}
		cases.NoError(t, errors.Join(lock.Unlock(), locker.Close(), client.Close()))
	}
	for field, row := range fates(t) {
		if row[0] == "carried" && !tried[field] {
			t.Errorf("%s is not tried", field)
		}
	}
}
