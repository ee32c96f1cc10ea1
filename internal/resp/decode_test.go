package resp

import (
	"errors"
	"io"
	"net"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/gomodule/redigo/redis"
)

// redigo returns redigo's connection to a side that has sent all that it will ever send.
func redigo(wire []byte) redis.Conn {
	ours, theirs := net.Pipe()
	go func() {
		_, _ = theirs.Write(wire)
		_ = theirs.Close()
	}()
	return redis.NewConn(undated{ours}, 0, 0)
}

// undated is a connection without deadlines for reads, which redigo sets before each: a pipe refuses that as soon as
// its other end is closed, although what it has brought is not used up.
type undated struct{ net.Conn }

func (undated) SetReadDeadline(time.Time) error { return nil }

// Replies are read as redigo reads them, however they come in.
func TestRepliesAreReadAsRedigoReadsThem(t *testing.T) {
	for _, wire := range []string{
		"+OK\r\n", "+QUEUED\r\n", "+\r\n", ":0\r\n", ":-2\r\n", ":9223372036854775807\r\n",
		"$-1\r\n", "*-1\r\n", "$0\r\n\r\n", "*0\r\n", "$5\r\na\r\nbc\r\n", "-ERR no\r\n", "-NOSCRIPT No matching script.\r\n",
		"*2\r\n*3\r\n:0\r\n$1\r\nx\r\n:-1\r\n*1\r\n:1\r\n", "*2\r\n$-1\r\n-OOM no\r\n",
		"$9\r\nab", "*2\r\n:1\r\n", "x\r\n", ":a\r\n", "$1\r\nab\r\n",
	} {
		want, wantErr := redigo([]byte(wire)).Receive()
		for _, in := range []io.Reader{strings.NewReader(wire), iotest.OneByteReader(strings.NewReader(wire))} {
			got, err := NewDecoder(in).Take(nil)
			if IsError(wantErr) {
				if err != nil || !errors.Is(got[0].Err, wantErr) {
					t.Errorf("%q: got %v, %v, want %v", wire, got, err, wantErr)
				}
				continue
			}
			if (err != nil) != (wantErr != nil) || err == nil && !reflect.DeepEqual(got[0].Value, want) {
				t.Errorf("%q: got %#v, %v, want %#v, %v", wire, got, err, want, wantErr)
			}
		}
	}
}

// What RESP3 says differently becomes what RESP2 says.
func TestRESP3IsReadAsRESP2(t *testing.T) {
	for wire, plain := range map[string]string{
		"_\r\n": "$-1\r\n", "#t\r\n": ":1\r\n", "#f\r\n": ":0\r\n",
		",1.5\r\n": "$3\r\n1.5\r\n", ",inf\r\n": "$3\r\ninf\r\n", ",-1.7e+15\r\n": "$8\r\n-1.7e+15\r\n",
		"(12345678901234567890\r\n":             "$20\r\n12345678901234567890\r\n",
		"=8\r\ntxt:a\r\nb\r\n":                  "$4\r\na\r\nb\r\n",
		"=4\r\nmkd:\r\n":                        "$0\r\n\r\n",
		"!10\r\nNOPERM a b\r\n":                 "-NOPERM a b\r\n",
		"%0\r\n":                                "*0\r\n",
		"%2\r\n+a\r\n:1\r\n+b\r\n_\r\n":         "*4\r\n+a\r\n:1\r\n+b\r\n$-1\r\n",
		"~2\r\n$1\r\na\r\n%1\r\n:1\r\n#t\r\n":   "*2\r\n$1\r\na\r\n*2\r\n:1\r\n:1\r\n",
		"*2\r\n_\r\n!3\r\nOOM\r\n":              "*2\r\n$-1\r\n-OOM\r\n",
		"|1\r\n+ttl\r\n:3\r\n:7\r\n":            ":7\r\n",
		"*1\r\n|1\r\n+ttl\r\n:3\r\n+QUEUED\r\n": "*1\r\n+QUEUED\r\n",
	} {
		want, _ := NewDecoder(strings.NewReader(plain)).Take(nil)
		for _, in := range []io.Reader{strings.NewReader(wire), iotest.OneByteReader(strings.NewReader(wire))} {
			if got, err := NewDecoder(in).Take(nil); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%q: got %v, %v, want %v", wire, got, err, want)
			}
		}
	}
}

// A push is told from a reply, and never part of one.
func TestPushes(t *testing.T) {
	d := NewDecoder(strings.NewReader(":1\r\n>2\r\n+a\r\n*1\r\n_\r\n:2\r\n>0\r\n"))
	var got []Reply
	for len(got) < 4 {
		var err error
		if got, err = d.Take(got); err != nil {
			t.Fatal(err)
		}
	}
	want := []Reply{{Value: int64(1)}, {Value: Push{"a", []any{nil}}}, {Value: int64(2)}, {Value: Push{}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// take takes all complete replies that have come, and does not wait for an incomplete one.
func TestRepliesThatHaveComeAreTakenTogether(t *testing.T) {
	ours, theirs := io.Pipe()
	go func() { _, _ = theirs.Write([]byte("+OK\r\n$-1\r\n:7\r\n-ERR no\r\n+OK\r")) }()
	p := NewDecoder(ours)
	all, err := p.Take(nil)
	want := []Reply{{Value: "OK"}, {}, {Value: int64(7)}, {Err: redis.Error("ERR no")}}
	if err != nil || !reflect.DeepEqual(all, want) {
		t.Fatalf("got %v, %v, want the four that are whole", all, err)
	}
	go func() { _, _ = theirs.Write([]byte("\n*1\r\n:1\r\n")) }()
	if all, err = p.Take(all[:0]); err != nil || len(all) != 1 || all[0].Value != "OK" {
		t.Fatalf("got %v, %v, want the one that was cut", all, err)
	}
	if all, err = p.Take(all[:0]); err != nil || !reflect.DeepEqual(all[0].Value, []any{int64(1)}) {
		t.Fatalf("got %v, %v, want the array", all, err)
	}
}

// A malicious node cannot make its clients allocate what it announces.
func TestAReplyIsBounded(t *testing.T) {
	for _, wire := range []string{
		"$536870913\r\n", "*524289\r\n", "$9999999999999999999\r\n", "*-2\r\n", "$-2\r\n",
		strings.Repeat("*1\r\n", maxDepth+1) + ":1\r\n", "+" + strings.Repeat("x", 1<<15) + "\r\n",
		"*200\r\n" + strings.Repeat("$99999\r\n"+strings.Repeat("x", 99999)+"\r\n", 200),
		"%262145\r\n", "~524289\r\n", ">524289\r\n", "|262145\r\n", "=536870913\r\n", "!536870913\r\n",
		"%4611686018427387905\r\n", "%-1\r\n", "~-1\r\n", ">-1\r\n", "|-1\r\n", "=-1\r\n", "!-1\r\n", "=3\r\ntxt\r\n",
		"=4\r\ntext\r\n", "_x\r\n", "#x\r\n", "#\r\n", ",\r\n", "(\r\n", "*1\r\n>0\r\n", "$?\r\n", "*?\r\n",
		strings.Repeat("|0\r\n", maxDepth+1) + ":1\r\n", strings.Repeat("%1\r\n:1\r\n", maxDepth+1) + ":1\r\n",
		"*60000\r\n" + strings.Repeat("-ERR "+strings.Repeat("x", 1000)+"\r\n", 60000),
	} {
		if got, err := NewDecoder(strings.NewReader(wire)).Take(nil); !errors.Is(err, ErrBadReply) {
			t.Errorf("%.30q…: got %v, %v, want ErrBadReply", wire, got, err)
		}
	}
}

// The value of another application's key may be long, and is reported as the holder's owner: that must not end the
// connection.
func TestALongValueIsCutShort(t *testing.T) {
	long := strings.Repeat("x", 3<<20)
	all, err := NewDecoder(strings.NewReader("*2\r\n$3145728\r\n" + long + "\r\n:7\r\n+OK\r\n")).Take(nil)
	if err != nil || !reflect.DeepEqual(all[0].Value, []any{[]byte(long[:maxBulk]), int64(7)}) || all[1].Value != "OK" {
		t.Errorf("got %d replies, %v", len(all), err)
	}
}

// Whatever a server sends, the decoder reads or rejects it: no panic, and no memory for bytes that are only announced.
func FuzzDecoder(f *testing.F) {
	for _, seed := range []string{
		"+OK\r\n", ":1\r\n", "$-1\r\n", "*1\r\n*2\r\n:2\r\n$16\r\n1766620800172208\r\n", "-NOSCRIPT No matching script\r\n",
		"_\r\n,1.5\r\n#t\r\n(1\r\n", "=7\r\ntxt:abc\r\n", "%1\r\n+a\r\n~1\r\n:1\r\n", "|1\r\n+a\r\n:1\r\n!3\r\nERR\r\n",
		">3\r\n+message\r\n$1\r\na\r\n$1\r\nb\r\n:1\r\n",
		"$160866208001722\r\n", "*-1\r\n", "*2\r\n-OOM no\r\n+OK\r\n:7\r\n", "$3\r\nabc\r\n+OK\r",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, wire string) {
		all, err := NewDecoder(strings.NewReader(wire)).Take(nil)
		if err == nil && len(all) == 0 {
			t.Errorf("%q: neither a reply nor an error", wire)
		}
		for _, r := range all {
			if r.Err != nil && (!IsError(r.Err) || r.Value != nil) {
				t.Errorf("%q: got %v, %v", wire, r.Value, r.Err)
			}
		}
	})
}
