package auth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
)

// ServerTLS reads what a listener needs: its certificate chain and key, and whose
// certificates clients must show, "" for none. All are files in PEM.
func ServerTLS(certFile, keyFile, clientCAFile string) (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("TLS certificate %s with key %s: %w", certFile, keyFile, err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}}
	if clientCAFile == "" {
		return c, nil
	}
	pem, err := os.ReadFile(clientCAFile)
	if err != nil {
		return nil, fmt.Errorf("certificates of clients' authorities: %w", err)
	}
	c.ClientCAs = x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("certificates of clients' authorities: %s has no certificate in PEM", clientCAFile)
	}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	return c, nil
}

// Dial connects to an address by dial, and shakes hands where the client has TLS.
func (c *Client) Dial(ctx context.Context, dial func(ctx context.Context, network, address string) (net.Conn, error), network, address string) (net.Conn, error) {
	plain, err := dial(ctx, network, address)
	if err != nil || c == nil || c.TLS == nil {
		return plain, err
	}
	secure := tls.Client(plain, c.TLSFor(address))
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = plain.Close()
		return nil, fmt.Errorf("TLS handshake with %s: %w", address, err)
	}
	return secure, nil
}
