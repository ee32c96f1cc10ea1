package endpoint

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"testing"
)

// The functions of a TLS configuration are asked at each connect. What they fail with is told for what it is: no file
// of the client is the server's fault. One that verifies the server learns which host it should be, an IP address, too.
func TestCertificatesThatChange(t *testing.T) {
	web := httptest.NewUnstartedServer(nil) // has a certificate for 127.0.0.1 and example.com
	web.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
	web.Config.ErrorLog = log.New(io.Discard, "", 0)
	web.StartTLS()
	defer web.Close()
	addr := web.Listener.Addr().String()
	const strange = "its certificate is not accepted: "
	var names []string
	var refused, missing error
	ours := &tls.Config{
		MinVersion: tls.VersionTLS12, InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			names = append(names, state.ServerName)
			return refused
		},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &web.TLS.Certificates[0], missing
		},
	}
	for _, c := range []struct {
		refused, missing error
		want             string
		kind             any
	}{
		{x509.UnknownAuthorityError{}, nil, strange + "certificate signed by unknown authority", new(MismatchError)},
		{fmt.Errorf("read ca.pem: %w", io.EOF), nil, strange + "read ca.pem: EOF", new(MismatchError)},
		{nil, fmt.Errorf("read key.pem: %w", io.EOF), "credentials: read key.pem: EOF", new(CredentialsError)},
		{},
	} {
		refused, missing = c.refused, c.missing
		conn, err := tls.Dial("tcp", addr, TLSConfig(ours, addr))
		if err == nil {
			_ = conn.Close()
		}
		cause := errors.Join(c.refused, c.missing)
		if c.want == "" && err == nil {
			continue
		}
		if err = TLSError(err, nil); err.Error() != c.want || !errors.As(err, c.kind) ||
			!errors.Is(cause, errors.Unwrap(err)) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	if len(names) != 4 {
		t.Errorf("asked to verify %d times, want 4", len(names))
	}
	for _, name := range names {
		if name != "127.0.0.1" {
			t.Errorf("asked to verify %q, want the IP address of the URL", name)
		}
	}
	if ours.ServerName != "" {
		t.Errorf("the caller's configuration has changed: %q", ours.ServerName)
	}
}
