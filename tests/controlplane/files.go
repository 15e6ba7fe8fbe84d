package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// files are what the components read: certificates, tokens, kubeconfigs and the audit policy.
type files struct {
	dir                         string
	ca, serverCert, serverKey   string
	serviceAccountKey           string
	tokens                      string
	auditLog, auditPolicy       string
	adminToken                  string
	adminKubeconfig             string
	controllerManagerKubeconfig string
	schedulerKubeconfig         string
}

// Request bodies of EndpointSlice writes tell who wrote which hints; of the rest the metadata is enough.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Request
  verbs: [create, update, patch, delete]
  resources: [{group: discovery.k8s.io, resources: [endpointslices]}]
- level: Metadata
`

func writeFiles(dir, server string) (*files, error) {
	at := func(name string) string { return filepath.Join(dir, name) }
	f := &files{
		dir: dir, ca: at("ca.crt"), serverCert: at("server.crt"), serverKey: at("server.key"),
		serviceAccountKey: at("service-account.key"), tokens: at("tokens.csv"),
		auditLog: at("audit.log"), auditPolicy: at("audit-policy.yaml"),
		adminKubeconfig: at("admin.kubeconfig"), controllerManagerKubeconfig: at("controller-manager.kubeconfig"),
		schedulerKubeconfig: at("scheduler.kubeconfig"),
	}
	if err := writeCertificates(f); err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	if err := os.WriteFile(f.auditPolicy, []byte(auditPolicy), 0o600); err != nil {
		return nil, err
	}
	users := []struct{ name, groups, kubeconfig string }{
		{"admin", "system:masters", f.adminKubeconfig},
		{"system:kube-controller-manager", "", f.controllerManagerKubeconfig},
		{"system:kube-scheduler", "", f.schedulerKubeconfig},
	}
	var tokens strings.Builder
	for i, user := range users {
		token, err := randomToken()
		if err != nil {
			return nil, err
		}
		if user.name == "admin" {
			f.adminToken = token
		}
		fmt.Fprintf(&tokens, "%s,%s,%d,%q\n", token, user.name, i, user.groups)
		if err := writeKubeconfig(user.kubeconfig, server, f.ca, token); err != nil {
			return nil, err
		}
	}
	return f, os.WriteFile(f.tokens, []byte(tokens.String()), 0o600)
}

func writeKubeconfig(path, server, ca, token string) error {
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: test, user: {token: %q}}]
contexts: [{name: test, context: {cluster: test, user: test}}]
current-context: test
`, server, ca, token)
	return os.WriteFile(path, []byte(text), 0o600)
}

func randomToken() (string, error) {
	raw := make([]byte, 16)
	if _, err := rand.Read(raw); err != nil {
		return "", err
	}
	return hex.EncodeToString(raw), nil
}

func writeCertificates(f *files) error {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "controlplane-ca"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return err
	}
	serverKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "kube-apiserver"},
		NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		DNSNames: []string{"localhost", "kubernetes.default.svc"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	serverDER, err := x509.CreateCertificate(rand.Reader, server, ca, serverKey.Public(), caKey)
	if err != nil {
		return err
	}
	serviceAccountKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	if err := writePEM(f.ca, "CERTIFICATE", caDER); err != nil {
		return err
	}
	if err := writePEM(f.serverCert, "CERTIFICATE", serverDER); err != nil {
		return err
	}
	if err := writeKey(f.serverKey, serverKey); err != nil {
		return err
	}
	return writeKey(f.serviceAccountKey, serviceAccountKey)
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "EC PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
