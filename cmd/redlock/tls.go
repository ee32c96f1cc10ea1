package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v3"
)

// tlsFlags are for nodes whose certificates the system's roots do not verify, and for those that want one of us.
func tlsFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{
			Name: "ca", TakesFile: true,
			Usage: "verify rediss:// nodes with the certificates in `FILE` (PEM), not with the system's roots",
		},
		&cli.StringFlag{Name: "cert", TakesFile: true, Usage: "show rediss:// nodes the certificate in `FILE` (PEM)"},
		&cli.StringFlag{Name: "key", TakesFile: true, Usage: "the private key that belongs to --cert, in `FILE` (PEM)"},
		&cli.StringFlag{
			Name:  "server-name",
			Usage: "want `NAME` in the certificates of rediss:// nodes, not the host of the URL",
		},
	}
}

// tlsOf returns what tlsFlags say: nothing if none is given.
func tlsOf(cmd *cli.Command, nodes []string) (*tls.Config, error) {
	ca, cert, key, name := cmd.String("ca"), cmd.String("cert"), cmd.String("key"), cmd.String("server-name")
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: name}
	switch {
	case ca+cert+key+name == "":
		return nil, nil
	case (cert == "") != (key == ""):
		return nil, usagef("--cert and --key need each other")
	case !anySecure(nodes):
		return nil, usagef("--ca, --cert, --key and --server-name are for TLS, and no node is rediss://…")
	}
	// The files are read now, so that a wrong one is told at once, and then at each connect: certificates are renewed
	// while a command runs. What was good before does not stand in for a file that cannot be read: an authority that was
	// taken out must not be trusted any longer, and the error is seen at once instead of at the next start.
	if ca != "" {
		if _, err := rootsIn(ca); err != nil {
			return nil, usagef("%v", err)
		}
		config.InsecureSkipVerify = true // since VerifyConnection verifies, by the same rules
		config.VerifyConnection = func(state tls.ConnectionState) error {
			roots, err := rootsIn(ca)
			if err != nil {
				return err
			}
			return verify(state, roots)
		}
	}
	if cert != "" {
		if _, err := pairIn(cert, key); err != nil {
			return nil, usagef("%v", err)
		}
		config.GetClientCertificate = func(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := pairIn(cert, key)
			if err != nil || asked.SupportsCertificate(&pair) == nil {
				return &pair, err
			}
			return new(tls.Certificate), nil // as crypto/tls does: the server may do without
		}
	}
	return config, nil
}

func rootsIn(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--ca: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--ca: no certificate in %s", file)
	}
	return roots, nil
}

func pairIn(cert, key string) (tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	switch {
	case err == nil:
		return pair, nil
	case errors.As(err, new(*os.PathError)): // which names the file
		return pair, fmt.Errorf("--cert, --key: %w", err)
	default:
		return pair, fmt.Errorf("--cert, --key: %s, %s: %s", cert, key, strings.TrimPrefix(err.Error(), "tls: "))
	}
}

// verify does what crypto/tls does with roots of its own: the chain must lead to one of them, be valid now and made for
// servers, and name the host, which redlock puts into state.
func verify(state tls.ConnectionState, roots *x509.CertPool) error {
	if state.ServerName == "" || len(state.PeerCertificates) == 0 { // then nothing would be verified
		return errors.New("there is nothing to verify")
	}
	between := x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		between.AddCert(c)
	}
	_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: between, DNSName: state.ServerName,
	})
	return err
}

func anySecure(nodes []string) bool {
	for _, n := range nodes {
		if strings.HasPrefix(n, "rediss://") || strings.HasPrefix(n, "valkeys://") {
			return true
		}
	}
	return false
}
