package endpoint

import (
	"crypto/tls"
	"errors"
	"net"
)

// TLSConfig returns the configuration for the server at an address: the caller's, nil for the usual one.
func TLSConfig(config *tls.Config, address string) *tls.Config {
	if config = config.Clone(); config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(address)
	}
	ask(config)
	return config
}

// ask prepares the functions of a configuration, by which certificates can change while a client runs: what they fail
// with is told apart from what the server does, and one that verifies the server learns whom to expect.
func ask(config *tls.Config) {
	if get := config.GetClientCertificate; get != nil {
		config.GetClientCertificate = func(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			own, err := get(info)
			if err != nil {
				err = CredentialsError{err}
			}
			return own, err
		}
	}
	if verify := config.VerifyConnection; verify != nil {
		name := config.ServerName
		config.VerifyConnection = func(state tls.ConnectionState) error {
			// It is empty for an IP address, which no server is told. A Verify without a DNSName would then accept whatever
			// the authority has ever signed, as the one in the example of crypto/tls does.
			state.ServerName = name
			err := verify(state)
			if err != nil && !errors.As(err, new(*tls.CertificateVerificationError)) {
				err = &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}
			}
			return err
		}
	}
}

// TLSError says what is wrong where a TLS handshake has failed. An error that is silence means the lack of an answer.
func TLSError(err, silence error) error {
	const handshake = " the TLS handshake (a node that does not speak TLS wants redis://)"
	var record tls.RecordHeaderError
	var refused *tls.CertificateVerificationError
	switch {
	case errors.As(err, new(CredentialsError)):
		return err
	case errors.As(err, &refused): // before what its cause may look like
		return MismatchError{Certificate, "its certificate is not accepted", refused.Err}
	case errors.As(err, &record):
		return MismatchError{Kind: NoTLS, text: "it does not speak TLS: write redis://, or check the port"}
	case hungUp(err):
		return MismatchError{PerhapsNoTLS, "it closes the connection in" + handshake, err}
	case errors.Is(err, silence):
		return MismatchError{PerhapsNoTLS, "no answer to" + handshake, err}
	default:
		return alert(err)
	}
}

// CredentialsError means that the function for user and password failed, before any connection, or the one for the
// client's certificate. The server is not to blame.
type CredentialsError struct{ Err error }

func (e CredentialsError) Error() string { return "credentials: " + e.Err.Error() }
func (e CredentialsError) Unwrap() error { return e.Err }
