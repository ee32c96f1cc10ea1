//go:build unix

package redisserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// Names of the files that a server with TLS reads.
const (
	caFile   = "ca.pem"
	certFile = "server.pem"
	keyFile  = "server-key.pem"
)

// Authority is a certificate authority that nobody trusts but the tests that made it.
type Authority struct {
	pool  *x509.CertPool
	files map[string]string
}

// NewAuthority makes an authority and one certificate, for 127.0.0.1 and localhost, that all its servers share. Clients
// can show it, too.
func NewAuthority() (*Authority, error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redlock test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return nil, fmt.Errorf("sign the authority: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "redlock test server"},
		NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	serverDER, err := x509.CreateCertificate(rand.Reader, server, ca, &key.PublicKey, caKey)
	if err != nil {
		return nil, fmt.Errorf("sign the server's certificate: %w", err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	caPEM := armour("CERTIFICATE", caDER)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(caPEM))
	return &Authority{pool: pool, files: map[string]string{
		caFile: caPEM, certFile: armour("CERTIFICATE", serverDER), keyFile: armour("EC PRIVATE KEY", keyDER),
	}}, nil
}

func armour(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// Args are the arguments of a server that speaks TLS only: see [Args].
func (a *Authority) Args() []string {
	return []string{
		"--port", "0", "--tls-port", "{port}", "--tls-auth-clients", "no",
		"--tls-ca-cert-file", "{dir}/" + caFile, "--tls-cert-file", "{dir}/" + certFile,
		"--tls-key-file", "{dir}/" + keyFile,
	}
}

// Files are the files that such a server reads: see [Config].
func (a *Authority) Files() map[string]string { return a.files }

// ClientConfig returns a configuration that trusts this authority and no other.
func (a *Authority) ClientConfig() *tls.Config {
	return &tls.Config{RootCAs: a.pool, MinVersion: tls.VersionTLS12}
}
