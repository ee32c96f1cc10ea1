package endpoint

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
)

// handshake says what is wrong with a server that answers, and hangs up then.
func handshake(secure bool, answer []byte) error {
	ours, theirs := net.Pipe()
	defer ours.Close()
	go func() {
		defer theirs.Close()
		// The greeting, all of it. A pipe that is closed before would say so, as a socket does not.
		_, _ = io.ReadAtLeast(theirs, make([]byte, 4096), 16)
		_, _ = theirs.Write(answer)
	}()
	if secure {
		return TLSError(tls.Client(ours, TLSConfig(nil, "node.example:6379")).Handshake(), nil)
	}
	first := FirstBytes{Conn: ours, Secure: secure}
	_, _ = io.WriteString(&first, "*2\r\n$4\r\nECHO\r\n$5\r\nhello\r\n")
	_, _ = io.ReadAll(&first)
	return first.Explain(io.EOF)
}

// What ends a handshake is told apart: only what is certain, and what nobody but a person mends, ends a wait. What
// closes a connection before it has said anything may be a proxy without a server: that it wants TLS, or speaks none,
// is a guess, and time may mend it.
func TestWhatEndsAHandshake(t *testing.T) {
	alert := func(code byte) []byte { return []byte{21, 3, 3, 0, 2, 2, code} }
	web := []byte("HTTP/1.1 400 Bad Request\r\n\r\n")
	const perhapsNone = "it closes the connection in the TLS handshake (a node that does not speak TLS wants redis://)"
	const notAccepted = "it does not accept the TLS handshake: "
	const unanswered = "it accepts the connection and closes it without an answer, as a proxy does whose server is " +
		"down, and a node that wants TLS (rediss://)"
	for _, c := range []struct {
		name    string
		secure  bool
		answer  []byte
		kind    MismatchKind
		lasting bool
		want    string
	}{
		{"a proxy whose server is down", false, nil, PerhapsTLS, false, unanswered},
		{"HTTP", false, web, NotRedis, true, "it is no Redis server, but answers HTTP: check host and port"},
		{"something else", false, []byte("hello"), NotRedis, true, "it is no Redis server: check host and port"},
		{"one that is asked for TLS", true, nil, PerhapsNoTLS, false, perhapsNone},
		{"cut off", true, []byte{22, 3}, PerhapsNoTLS, false, perhapsNone},
		{"HTTP, TLS", true, web, NoTLS, true, "it does not speak TLS: write redis://, or check the port"},
		{"no certificate", true, alert(116), OurCertificate, true, notAccepted + "certificate required"},
		{"a bad certificate", true, alert(42), OurCertificate, true, notAccepted + "bad certificate"},
		{"trouble of its own", true, alert(80), Alert, false, notAccepted + "internal error"},
	} {
		err := handshake(c.secure, c.answer)
		var got MismatchError
		if !errors.As(err, &got) || got.Kind != c.kind || Lasts(err) != c.lasting || err.Error() != c.want {
			t.Errorf("%s: got %v (kind %d, lasting %t)", c.name, err, got.Kind, Lasts(err))
		}
	}
	const silence = "no answer to the TLS handshake (a node that does not speak TLS wants redis://): for 1 s"
	late := errors.New("for 1 s")
	if err := TLSError(late, late); err.Error() != silence {
		t.Errorf("got %v", err)
	}
	evil := x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"\x1b[31m"}}, Host: "r1"}
	err := TLSError(&tls.CertificateVerificationError{Err: evil}, nil)
	if !strings.HasSuffix(err.Error(), `certificate is valid for \x1b[31m, not r1`) {
		t.Errorf("got %q", err)
	}
	if err := handshake(false, []byte("-LOADING no\r\n")); !errors.Is(err, io.EOF) || strings.Contains(err.Error(), "it") {
		t.Errorf("got %v of a Redis server", err)
	}
}
