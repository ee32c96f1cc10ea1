package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/fence"
	"github.com/quorumlock/redlock/fence/fencetest"
	"github.com/quorumlock/redlock/redlocktest"
)

func TestParse(t *testing.T) {
	h, err := fence.Parse("stock:4711", "1766617310017481")
	if err != nil || h.Name() != "stock:4711" || h.Token() != 1766617310017481 {
		t.Errorf("got %v, %v", h, err)
	}
	for _, of := range []struct{ name, token, says string }{
		{"", "1", "without a name"},
		{strings.Repeat("x", 513), "1", "513 bytes"},
		{"stock", "0", "has no token"},
		{"stock", "-1", "which no hold has"},
		{"stock", "9007199254740992", "which no hold has"},
		{"stock", "", "is no number"},
		{"stock", "1e3", "is no number"},
	} {
		_, err := fence.Parse(of.name, of.token)
		if !errors.Is(err, redlock.ErrInvalid) || !strings.Contains(err.Error(), of.says) {
			t.Errorf("%.20q, %q: got %v, want that it says %q", of.name, of.token, err, of.says)
		}
	}
}

// noToken is a reader.
type noToken struct{}

func (noToken) Name() string { return "stock" }
func (noToken) Token() int64 { return 0 }

// Nothing is asked of a store for a holder that has no token.
func TestAHolderWithoutToken(t *testing.T) {
	ctx := t.Context()
	_, read := fence.ReadObject(ctx, nil, "stock", noToken{})
	_, get := fence.RedisGet(ctx, nil, noToken{}, "stock")
	for what, err := range map[string]error{
		"ReadObject": read, "RedisGet": get,
		"WriteObject": fence.WriteObject(ctx, nil, "stock", noToken{}, nil),
		"RedisSet":    fence.RedisSet(ctx, nil, noToken{}, "stock", ""),
		"Enter":       fence.Postgres.Enter(ctx, nil, noToken{}),
		"EnterRow":    fence.SQLite.EnterRow(ctx, nil, noToken{}, "stock", "token", "item = ?", 1),
	} {
		if !errors.Is(err, redlock.ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", what, err)
		}
	}
}

// bucket is a server that writes an object on the condition that its ETag is still this. It knows nothing of tokens: to
// the bucket they are metadata.
type bucket struct {
	mu    sync.Mutex // guards the fields below
	etag  int
	token string
	data  []byte
}

func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch tag := strconv.Itoa(b.etag); {
	case r.Method == http.MethodGet && b.etag == 0:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodGet:
		w.Header().Set("ETag", tag)
		w.Header().Set("X-Meta-Token", b.token)
		_, _ = w.Write(b.data)
	case r.Header.Get("If-None-Match") == "*" && b.etag > 0,
		r.Header.Get("If-None-Match") == "" && r.Header.Get("If-Match") != tag:
		w.WriteHeader(http.StatusPreconditionFailed)
	default:
		b.etag, b.token = b.etag+1, r.Header.Get("X-Meta-Token")
		b.data, _ = io.ReadAll(r.Body)
	}
}

// objects is the client of an object store.
type objects struct{ url string }

func (o objects) do(ctx context.Context, method, key, body string, header ...string) (*http.Response, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, o.url+"/"+key, strings.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	said, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer said.Body.Close()
	data, err := io.ReadAll(said.Body)
	return said, data, err
}

func (o objects) Get(ctx context.Context, key string) (data []byte, token int64, version string, err error) {
	said, data, err := o.do(ctx, "GET", key, "")
	if err != nil || said.StatusCode == http.StatusNotFound {
		return nil, 0, "", err
	}
	token, err = strconv.ParseInt(said.Header.Get("X-Meta-Token"), 10, 64)
	fencetest.Step(ctx)
	return data, token, said.Header.Get("ETag"), err
}

func (o objects) Put(ctx context.Context, key string, data []byte, token int64, version string) (bool, error) {
	header := []string{"X-Meta-Token", strconv.FormatInt(token, 10), "If-Match", version}
	if version == "" {
		header[2], header[3] = "If-None-Match", "*"
	}
	said, _, err := o.do(ctx, "PUT", key, string(data), header...)
	return err == nil && said.StatusCode == http.StatusOK, err
}

// store is an object, as what is tested.
type store struct{ fence.Objects }

func holder(token int64) fence.Holder {
	h, err := fence.Parse("stock", strconv.FormatInt(token, 10))
	if err != nil {
		panic(err)
	}
	return h
}

func (s store) Read(ctx context.Context, h fence.Holder) (string, error) {
	data, err := fence.ReadObject(ctx, s, "stock", h)
	return string(data), err
}

func (s store) Write(ctx context.Context, h fence.Holder, value string) error {
	return fence.WriteObject(ctx, s, "stock", h, []byte(value))
}

func TestObjects(t *testing.T) {
	server := httptest.NewServer(&bucket{})
	defer server.Close()
	fencetest.Run(t, store{objects{server.URL}})
}

// A read makes an object that does not exist, to have the token in it.
func TestAnObjectThatDoesNotExist(t *testing.T) {
	server := httptest.NewServer(&bucket{})
	defer server.Close()
	s := store{objects{server.URL}}
	for _, token := range []int64{7, 7, 8} {
		if value, err := s.Read(t.Context(), holder(token)); value != "" || err != nil {
			t.Errorf("got %q, %v", value, err)
		}
	}
	err := s.Write(t.Context(), holder(7), "late")
	if !errors.Is(err, fence.ErrOvertaken) || !errors.Is(err, redlock.ErrLost) ||
		err.Error() != `fence: "stock": the token 7 is overtaken by 8 of a later holder` {
		t.Errorf("got %v", err)
	}
}

// busy is a store in which somebody else always comes first.
type busy struct{ end context.CancelFunc }

func (b busy) Get(context.Context, string) ([]byte, int64, string, error) { return nil, 0, "1", nil }

func (b busy) Put(context.Context, string, []byte, int64, string) (bool, error) {
	b.end()
	return false, nil
}

func TestAWriteThatIsNeverFirstEndsWithItsContext(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	if err := fence.WriteObject(ctx, busy{end}, "stock", holder(1), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

func TestRedisOfLocks(t *testing.T) {
	master := redlocktest.New(t, 1)
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.DialURL(master.URLs()[0]) }}
	defer pool.Close()
	ctx := t.Context()
	if value, err := fence.RedisGet(ctx, pool, holder(9), "stock"); value != "" || err != nil {
		t.Errorf("nothing there: got %q, %v", value, err)
	}
	if err := fence.RedisSet(ctx, pool, holder(10), "stock", "5"); err != nil {
		t.Error(err)
	}
	if err := fence.RedisSet(ctx, pool, holder(9), "stock", "4"); !errors.Is(err, fence.ErrOvertaken) {
		t.Errorf("a late write: got %v", err)
	}
	if value, err := fence.RedisGet(ctx, pool, holder(10), "stock"); value != "5" || err != nil {
		t.Errorf("got %q, %v", value, err)
	}
	master.Kill(0)
	if err := fence.RedisSet(ctx, pool, holder(11), "stock", "6"); err == nil || errors.Is(err, redlock.ErrLost) {
		t.Errorf("no master: got %v", err)
	}
}

// All that a transaction does under a lock is protected: Enter comes first.
func ExampleSQL_Enter() {
	sell := func(ctx context.Context, db *sql.DB, lock *redlock.Lock) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := fence.Postgres.Enter(ctx, tx, lock); err != nil {
			return err // errors.Is(err, fence.ErrOvertaken): a later holder was here
		}
		if _, err := tx.ExecContext(ctx, "UPDATE stock SET units = units - 1 WHERE item = 4711"); err != nil {
			return err
		}
		return tx.Commit()
	}
	_ = sell
	fmt.Println(fence.Postgres.Table())
	// Output: CREATE TABLE IF NOT EXISTS redlock_fences (name bytea PRIMARY KEY, token bigint NOT NULL)
}
