package main

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/quorumlock/redlock"
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
func tlsOf(cmd *cli.Command, nodes []string) ([]redlock.Option, error) {
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
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, usagef("--ca: %v", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, usagef("--ca: no certificate in %s", ca)
		}
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, usagef("--cert, --key: %s", strings.TrimPrefix(err.Error(), "tls: "))
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return []redlock.Option{redlock.WithTLSConfig(config)}, nil
}

func anySecure(nodes []string) bool {
	for _, n := range nodes {
		if strings.HasPrefix(n, "rediss://") || strings.HasPrefix(n, "valkeys://") {
			return true
		}
	}
	return false
}
