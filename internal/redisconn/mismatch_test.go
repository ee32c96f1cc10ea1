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

// What ends a TLS handshake is told apart: only what is certain, and what nobody but a person mends, ends a wait.
func TestWhatEndsATLSHandshake(t *testing.T) {
	alert := func(code byte) []byte { return []byte{21, 3, 3, 0, 2, 2, code} }
	for _, c := range []struct {
		name    string
		answer  []byte // then it hangs up
		kind    MismatchKind
		lasting bool
		want    string
	}{
		{
			"a proxy whose server is down", nil, PerhapsNoTLS, false,
			"it closes the connection in the TLS handshake (a node that does not speak TLS wants redis://)",
		},
		{
			"cut off",
			[]byte{22, 3},
			PerhapsNoTLS, false,
			"it closes the connection in the TLS handshake (a node that does not speak TLS wants redis://)",
		},
		{
			"HTTP", []byte("HTTP/1.1 400 Bad Request\r\n\r\n"), NoTLS, true,
			"it does not speak TLS: write redis://, or check the port",
		},
		{"no certificate", alert(116), OurCertificate, true, "it does not accept the TLS handshake: certificate required"},
		{
			"a bad certificate", alert(42), OurCertificate, true,
			"it does not accept the TLS handshake: bad certificate",
		},
		{"trouble of its own", alert(80), Alert, false, "it does not accept the TLS handshake: internal error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				config := newFake().config()
				config.TLS = &tls.Config{ServerName: "node.example"}
				config.Dial = func(context.Context, string, string) (net.Conn, error) {
					ours, theirs := net.Pipe()
					go func() {
						defer theirs.Close()
						_, _ = io.ReadAtLeast(theirs, make([]byte, 4096), 64) // the greeting
						_, _ = theirs.Write(c.answer)
					}()
					return ours, nil
				}
				client := start(t, "rediss://fake", config)
				synctest.Wait()
				_, err := client.State()
				var got MismatchError
				if !errors.As(err, &got) || got.Kind != c.kind || got.Lasting() != c.lasting ||
					!strings.HasSuffix(err.Error(), c.want) {
					t.Errorf("got %v (kind %d, lasting %t)", err, got.Kind, got.Lasting())
				}
			})
		})
	}
}

// What closes a connection before it has said anything may be a proxy without a server: that it wants TLS is a guess,
// and time may mend it.
func TestAcceptThenClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := newFake().config()
		config.Handshake = func(do Do) error {
			_, err := do([]any{"ECHO", "a"})
			return err
		}
		config.Dial = func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() {
				_, _ = theirs.Read(make([]byte, 4096)) // a pipe that is closed before would say so, as a socket does not
				theirs.Close()
			}()
			return ours, nil
		}
		client := start(t, "redis://fake", config)
		time.Sleep(time.Second) // it is tried again without HELLO, which some proxies do not know
		synctest.Wait()
		_, err := client.State()
		var got MismatchError
		if !errors.As(err, &got) || got.Kind != PerhapsTLS || got.Lasting() ||
			!strings.Contains(err.Error(), "closes it without an answer, as a proxy does whose server is down") {
			t.Errorf("got %v (kind %d, lasting %t)", err, got.Kind, got.Lasting())
		}
	})
}
