package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What ends a handshake is told apart: only what is certain, and what nobody but a person mends, ends a wait. What
// closes a connection before it has said anything may be a proxy without a server: that it wants TLS, or speaks none,
// is a guess, and time may mend it.
func TestWhatEndsAHandshake(t *testing.T) {
	alert := func(code byte) []byte { return []byte{21, 3, 3, 0, 2, 2, code} }
	const perhapsNone = "it closes the connection in the TLS handshake (a node that does not speak TLS wants redis://)"
	const notAccepted = "it does not accept the TLS handshake: "
	const unanswered = "it accepts the connection and closes it without an answer, as a proxy does whose server is " +
		"down, and a node that wants TLS (rediss://)"
	for _, c := range []struct {
		name    string
		url     string
		answer  []byte // then it hangs up
		kind    MismatchKind
		lasting bool
		want    string
	}{
		{"a proxy whose server is down", "redis://fake", nil, PerhapsTLS, false, unanswered},
		{"one that is asked for TLS", "rediss://fake", nil, PerhapsNoTLS, false, perhapsNone},
		{"cut off", "rediss://fake", []byte{22, 3}, PerhapsNoTLS, false, perhapsNone},
		{
			"HTTP", "rediss://fake", []byte("HTTP/1.1 400 Bad Request\r\n\r\n"), NoTLS, true,
			"it does not speak TLS: write redis://, or check the port",
		},
		{"no certificate", "rediss://fake", alert(116), OurCertificate, true, notAccepted + "certificate required"},
		{"a bad certificate", "rediss://fake", alert(42), OurCertificate, true, notAccepted + "bad certificate"},
		{"trouble of its own", "rediss://fake", alert(80), Alert, false, notAccepted + "internal error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				config := newFake().config()
				config.Handshake, config.TLS = echo, &tls.Config{ServerName: "node.example"}
				config.Dial = func(context.Context, string, string) (net.Conn, error) {
					ours, theirs := net.Pipe()
					go func() {
						defer theirs.Close()
						// The greeting, all of it. A pipe that is closed before would say so, as a socket does not.
						_, _ = io.ReadAtLeast(theirs, make([]byte, 4096), 16)
						_, _ = theirs.Write(c.answer)
					}()
					return ours, nil
				}
				client := start(t, c.url, config)
				for range 2 { // it is tried again without HELLO, which some proxies do not know
					synctest.Wait()
					_, err := client.State()
					var got MismatchError
					if !errors.As(err, &got) || got.Kind != c.kind || got.Lasting() != c.lasting ||
						!strings.HasSuffix(err.Error(), c.want) {
						t.Errorf("got %v (kind %d, lasting %t)", err, got.Kind, got.Lasting())
					}
					time.Sleep(time.Second)
				}
			})
		})
	}
}
