package webhook

import (
	"context"
	"crypto/tls"
	"fmt"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// clientAuthority requires client certificates; nil requires none.
type clientAuthority struct {
	file *dynamiccertificates.DynamicFileCAContent
}

// clients reads the file of ClientCA.
func (s *Server) clients() (*clientAuthority, error) {
	if s.ClientCA == "" {
		return nil, nil
	}
	file, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca", s.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("client CA %s: %w", s.ClientCA, err)
	}
	return &clientAuthority{file}, nil
}

// require returns a configuration that refuses connections without a client certificate.
func (c *clientAuthority) require(config *tls.Config) *tls.Config {
	if c == nil {
		return config
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	each := config.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		options, ok := c.file.VerifyOptions()
		if !ok {
			return nil, fmt.Errorf("client CA %s: no certificates", c.file.Name())
		}
		own := each.Clone()
		own.ClientCAs = options.Roots
		return own, nil
	}
	return config
}

// run follows the file until ctx ends.
func (c *clientAuthority) run(ctx context.Context) error {
	if c != nil {
		c.file.Run(ctx, 1)
	}
	return nil
}
