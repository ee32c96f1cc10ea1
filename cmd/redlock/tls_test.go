package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/quorumlock/redlock/internal/cases"
)

// Integration tests show that the flags work: TestDoctorKnowsEachMisfit.

// authority signs certificates for tests. The first of its chain is its own.
type authority struct {
	key   *ecdsa.PrivateKey
	chain []*x509.Certificate
}

// sign has an authority sign what differs from an ordinary certificate of a server; nil: it signs itself.
func (a *authority) sign(t *testing.T, change func(*x509.Certificate)) *authority {
	t.Helper()
	key := cases.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	what := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: t.Name()},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"node.example"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	change(what)
	parent, by := what, key
	if a != nil {
		parent, by = a.chain[0], a.key
	}
	der := cases.Must(x509.CreateCertificate(rand.Reader, what, parent, &key.PublicKey, by))(t)
	made := cases.Must(x509.ParseCertificate(der))(t)
	signed := &authority{key: key, chain: []*x509.Certificate{made}}
	if a != nil {
		signed.chain = append(signed.chain, a.chain...)
	}
	return signed
}

func authorises(c *x509.Certificate) {
	c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
	c.ExtKeyUsage, c.DNSNames, c.IPAddresses = nil, nil, nil
}

// shown is what a server shows: its certificate, and as many of those above it.
func (a *authority) shown(above int) tls.Certificate {
	c := tls.Certificate{PrivateKey: a.key}
	for _, one := range a.chain[:1+above] {
		c.Certificate = append(c.Certificate, one.Raw)
	}
	return c
}

// shake returns how the handshake with a server ends that shows a certificate.
func shake(t *testing.T, client *tls.Config, server tls.Certificate) error {
	t.Helper()
	l := cases.Must(tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{server}}))(t)
	defer l.Close()
	go func() {
		if conn, err := l.Accept(); err == nil {
			_ = conn.(*tls.Conn).Handshake() // the client says how it ends
			conn.Close()
		}
	}()
	conn := cases.Must(net.Dial("tcp", l.Addr().String()))(t)
	defer conn.Close()
	return tls.Client(conn, client).Handshake()
}

// timeless is what an error says, without the time of day.
func timeless(err error) string {
	text, _, _ := strings.Cut(err.Error(), ": current time")
	return text
}

// The authorities of --ca, read at each connect, accept what crypto/tls accepts with the same, and nothing else; if it
// refuses, it says the same.
func TestAuthoritiesVerifyAsTLSDoes(t *testing.T) {
	root := (*authority)(nil).sign(t, authorises)
	stranger := (*authority)(nil).sign(t, authorises)
	between := root.sign(t, authorises)
	narrow := root.sign(t, func(c *x509.Certificate) {
		authorises(c)
		c.PermittedDNSDomainsCritical, c.PermittedDNSDomains = true, []string{"other.example"}
	})
	same := func(*x509.Certificate) {}
	file := filepath.Join(t.TempDir(), "ca.pem")
	cases.NoError(t, os.WriteFile(file, []byte(root.pem()), 0o600))
	roots := cases.Must(rootsIn(file))(t)
	for name, c := range map[string]struct {
		host   string
		server tls.Certificate
		ok     bool
	}{
		"a name":                     {"node.example", root.sign(t, same).shown(0), true},
		"a name with a dot":          {"node.example.", root.sign(t, same).shown(0), true},
		"an address":                 {"127.0.0.1", root.sign(t, same).shown(0), true},
		"a long address":             {"::1", root.sign(t, same).shown(0), true},
		"another name":               {"n.example", root.sign(t, same).shown(0), false},
		"another address":            {"127.0.0.2", root.sign(t, same).shown(0), false},
		"another authority":          {"node.example", stranger.sign(t, same).shown(0), false},
		"another, shown as well":     {"node.example", stranger.sign(t, same).shown(1), false},
		"an intermediate":            {"127.0.0.1", between.sign(t, same).shown(1), true},
		"an intermediate, not shown": {"127.0.0.1", between.sign(t, same).shown(0), false},
		"an intermediate that may not sign for this name": {"node.example", narrow.sign(t, same).shown(1), false},
		"signed by no authority":                          {"node.example", root.sign(t, same).sign(t, same).shown(1), false},
		"itself":                                          {"node.example", (*authority)(nil).sign(t, same).shown(0), false},
		"over": {"node.example", root.sign(t, func(c *x509.Certificate) {
			c.NotAfter = time.Now().Add(-time.Minute)
		}).shown(0), false},
		"not yet": {"node.example", root.sign(t, func(c *x509.Certificate) {
			c.NotBefore = time.Now().Add(30 * time.Minute)
		}).shown(0), false},
		"for clients": {"node.example", root.sign(t, func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		}).shown(0), false},
	} {
		theirs := &tls.Config{ServerName: c.host, RootCAs: roots}
		want := shake(t, theirs, c.server)
		ours := &tls.Config{InsecureSkipVerify: true, VerifyConnection: func(state tls.ConnectionState) error {
			state.ServerName = c.host // as redlock does
			return verify(state, roots)
		}}
		got := shake(t, ours, c.server)
		var refused *tls.CertificateVerificationError
		switch {
		case c.ok && (want != nil || got != nil), !c.ok && (want == nil || got == nil):
			t.Errorf("%s: got %v, crypto/tls %v", name, got, want)
		case !c.ok && (!errors.As(want, &refused) || timeless(got) != timeless(refused.Err)):
			t.Errorf("%s: got %v, crypto/tls says %v", name, got, want)
		}
	}
	unnamed := tls.ConnectionState{PeerCertificates: root.sign(t, same).chain}
	if verify(unnamed, roots) == nil {
		t.Error("a certificate was accepted for no host at all")
	}
}

// The certificates of --ca and --cert are what the files say at that moment; what they said before does not stand in
// for a file that cannot be read, and the error names it.
func TestCertificateFilesAreReadAnew(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) {
		cases.NoError(t, os.WriteFile(at(name), []byte(text), 0o600))
	}
	first, second := (*authority)(nil).sign(t, authorises), (*authority)(nil).sign(t, authorises)
	write("ca", first.pem())
	write("cert", first.pem())
	write("key", first.secret(t))
	var err error
	config := cases.Must(settledValue(t, func(cmd *cli.Command) (c *tls.Config) {
		c, err = tlsOf(cmd, []string{"rediss://a"})
		return c
	}, "status", "--ca", at("ca"), "--cert", at("cert"), "--key", at("key")))(t)
	cases.NoError(t, err)
	trusts := func(of *authority) error {
		leaf := of.sign(t, func(*x509.Certificate) {})
		return config.VerifyConnection(tls.ConnectionState{ServerName: "node.example", PeerCertificates: leaf.chain})
	}
	shows := func() (*tls.Certificate, error) {
		return config.GetClientCertificate(&tls.CertificateRequestInfo{
			Version: tls.VersionTLS13, SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256},
		})
	}
	cases.NoError(t, trusts(first))
	write("ca", first.pem()[:100])
	if err := trusts(first); err == nil || err.Error() != "--ca: no certificate in "+at("ca") {
		t.Errorf("half a file: got %v", err)
	}
	write("ca", second.pem())
	if err := trusts(first); trusts(second) != nil || err == nil {
		t.Errorf("an authority that was taken out: got %v; the new one: %v", err, trusts(second))
	}
	if got, err := shows(); err != nil || !bytes.Equal(got.Certificate[0], first.chain[0].Raw) {
		t.Errorf("got %v", err)
	}
	write("cert", second.pem())
	want := "--cert, --key: " + at("cert") + ", " + at("key") + ": private key does not match public key"
	if _, err := shows(); err == nil || err.Error() != want {
		t.Errorf("the certificate before its key: got %v, want %s", err, want)
	}
	write("key", second.secret(t))
	if got, err := shows(); err != nil || !bytes.Equal(got.Certificate[0], second.chain[0].Raw) {
		t.Errorf("got %v", err)
	}
	cases.NoError(t, os.Remove(at("key")))
	want = "--cert, --key: open " + at("key") + ": no such file or directory"
	if _, err := shows(); err == nil || err.Error() != want {
		t.Errorf("no key: got %v, want %s", err, want)
	}
}

func (a *authority) pem() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.chain[0].Raw}))
}

func (a *authority) secret(t *testing.T) string {
	t.Helper()
	der := cases.Must(x509.MarshalECPrivateKey(a.key))(t)
	return string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
}
