package node

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/test/envtest"
)

// nodeAddress is that of the node, apiService that of the Service "kubernetes".
const (
	nodeAddress = "192.0.2.1"
	apiService  = "10.0.0.1"
)

// podNetwork is a bridge on which each pod has an address.
const podNetwork = `{
  "cniVersion": "1.0.0",
  "name": "pods",
  "plugins": [{
    "type": "bridge",
    "bridge": "pods0",
    "isGateway": true,
    "hairpinMode": true,
    "ipam": {
      "type": "host-local",
      "dataDir": %q,
      "ranges": [[{"subnet": "10.88.0.0/24"}]],
      "routes": [{"dst": "0.0.0.0/0"}]
    }
  }]
}`

// startNetworkedCluster starts a control plane that pods reach at the address of its Service,
// and whose API server has no other way to a webhook than the Service.
func startNetworkedCluster(t *testing.T) *envtest.Cluster {
	t.Helper()
	certificate, key := serviceCertificate(t)
	cluster, err := envtest.Start(t.Context(), envtest.Options{
		ControllerManager: true, Scheduler: true, DeviceTaintRules: true,
		APIServerArgs: map[string][]string{
			"authorization-mode":       {"Node", "RBAC"},
			"bind-address":             {"0.0.0.0"},
			"advertise-address":        {nodeAddress},
			"endpoint-reconciler-type": {"lease"},
			"tls-sni-cert-key":         {certificate + "," + key + ":" + nodeAddress},
			// In place of ServiceAccount, which envtest disables and pods need here.
			"disable-admission-plugins": {"DefaultStorageClass"},
		},
		ControllerManagerArgs: map[string][]string{"root-ca-file": {certificate}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	return cluster
}

// serviceCertificate writes a certificate, which is its own authority, for the address at which
// pods reach the API server. The control plane's own is for the loopback interface only.
func serviceCertificate(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"kubernetes.default.svc"},
		IPAddresses: []net.IP{net.ParseIP(apiService), net.ParseIP(nodeAddress)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := tempDir(t)
	certificate, key = filepath.Join(dir, "service.crt"), filepath.Join(dir, "service.key")
	for path, block := range map[string]*pem.Block{certificate: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certificate, key
}

// forwarding are the parameters of the network namespace with which a node forwards packets
// between pods and Services.
var forwarding = map[string]string{"ip_forward": "1", "conf/all/rp_filter": "0", "conf/default/rp_filter": "0"}

// startKubeProxy runs the kube-proxy of Kubernetes, which makes Services reachable by nftables.
func startKubeProxy(t *testing.T, cluster *envtest.Cluster) {
	t.Helper()
	for name, value := range forwarding {
		if err := os.WriteFile(filepath.Join("/proc/sys/net/ipv4", name), []byte(value), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kubeconfig, err := cluster.UserKubeconfig("system:kube-proxy")
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(tempDir(t), "kube-proxy.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	command := exec.Command(program(t, "kube-proxy"), "--kubeconfig="+kubeconfig, "--hostname-override="+nodeName,
		"--proxy-mode=nftables", "--nodeport-addresses=primary", "--conntrack-max-per-core=0",
		"--conntrack-tcp-timeout-established=0s", "--conntrack-tcp-timeout-close-wait=0s",
		"--healthz-bind-address=127.0.0.1:10256", "--metrics-bind-address=127.0.0.1:10249")
	command.Dir = tempDir(t)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if t.Failed() {
			content, _ := os.ReadFile(log.Name())
			t.Logf("end of kube-proxy's log:\n%s", content[max(0, len(content)-4000):])
		}
	})
}

func podNetworkIn(dir string) string { return fmt.Sprintf(podNetwork, filepath.Join(dir, "addresses")) }
