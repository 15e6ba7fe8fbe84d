package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

type options struct {
	dir             string
	controllers     []string
	controllerQPS   int
	controllerBurst int
	scheduler       bool
	kwok            bool
	apiServerArgs   []string
}

func defaultOptions() *options {
	return &options{
		controllers: []string{
			"endpointslice-controller", "endpointslice-mirroring-controller", "deployment-controller",
			"replicaset-controller", "namespace-controller", "serviceaccount-controller",
			"garbage-collector-controller", "node-lifecycle-controller", "root-ca-certificate-publisher-controller",
		},
		controllerQPS:   500,
		controllerBurst: 1000,
		scheduler:       true,
		kwok:            true,
	}
}

// ready is the line that tells a test where everything is.
type ready struct {
	Kubeconfig string `json:"kubeconfig"`
	Server     string `json:"server"`
	AuditLog   string `json:"auditLog"`
	Dir        string `json:"dir"`
}

const readyWithin = 2 * time.Minute

// up runs until the context ends, standard input ends or a component ends by itself.
func up(ctx context.Context, o *options) error {
	// A child's parent-death signal follows the thread that started it.
	runtime.LockOSThread()
	if o.dir == "" {
		dir, err := os.MkdirTemp("", "zonewise-controlplane-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		o.dir = dir
	} else if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()

	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	etcd := fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	server := fmt.Sprintf("https://127.0.0.1:%d", ports[2])
	files, err := writeFiles(o.dir, server)
	if err != nil {
		return err
	}

	components := &processes{dir: o.dir, ended: make(chan error, 8)}
	defer components.stop()
	if err := components.start("etcd", etcdArgs(o.dir, etcd, ports[1])); err != nil {
		return err
	}
	if err := components.waitReady(ctx, "etcd", http.DefaultClient, etcd+"/health", ""); err != nil {
		return err
	}
	if err := components.start("kube-apiserver", append(apiServerArgs(files, etcd, ports[2]), o.apiServerArgs...)); err != nil {
		return err
	}
	// The API server's certificate is our own; that this is the right server follows from the port that we chose.
	insecure := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	if err := components.waitReady(ctx, "kube-apiserver", insecure, server+"/readyz", files.adminToken); err != nil {
		return err
	}
	if err := startControllers(components, o, files); err != nil {
		return err
	}
	line, err := json.Marshal(ready{Kubeconfig: files.adminKubeconfig, Server: server, AuditLog: files.auditLog, Dir: o.dir})
	if err != nil {
		return err
	}
	fmt.Println(string(line))

	select {
	case <-ctx.Done():
		return nil
	case err := <-components.ended:
		return err
	}
}

func startControllers(components *processes, o *options, files *files) error {
	if err := components.start("kube-controller-manager", controllerManagerArgs(o, files)); err != nil {
		return err
	}
	if o.scheduler {
		if err := components.start("kube-scheduler", schedulerArgs(files)); err != nil {
			return err
		}
	}
	if !o.kwok {
		return nil
	}
	stages, err := writeStages(o.dir)
	if err != nil {
		return err
	}
	return components.start("kwok", []string{
		"--kubeconfig", files.adminKubeconfig,
		"--config", stages,
		"--manage-nodes-with-label-selector", "!" + unmanagedLabel,
	})
}

func etcdArgs(dir, client string, peerPort int) []string {
	peer := fmt.Sprintf("http://127.0.0.1:%d", peerPort)
	return []string{
		"--data-dir", filepath.Join(dir, "etcd"),
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer,
		"--unsafe-no-fsync", "--log-level", "warn",
	}
}

func apiServerArgs(f *files, etcd string, port int) []string {
	return []string{
		"--etcd-servers", etcd,
		"--bind-address", "127.0.0.1", "--secure-port", fmt.Sprint(port),
		"--cert-dir", f.dir, "--tls-cert-file", f.serverCert, "--tls-private-key-file", f.serverKey,
		"--authorization-mode", "RBAC", "--token-auth-file", f.tokens,
		"--disable-admission-plugins", "ServiceAccount",
		"--service-cluster-ip-range", "10.96.0.0/16,fd00:96::/108",
		"--service-account-issuer", "https://kubernetes.default.svc",
		"--service-account-key-file", f.serviceAccountKey, "--service-account-signing-key-file", f.serviceAccountKey,
		"--audit-log-path", f.auditLog, "--audit-policy-file", f.auditPolicy, "--audit-log-maxsize", "2000",
	}
}

func controllerManagerArgs(o *options, f *files) []string {
	return []string{
		"--kubeconfig", f.controllerManagerKubeconfig,
		"--leader-elect=false", "--secure-port", "0",
		"--use-service-account-credentials",
		"--root-ca-file", f.ca,
		"--controllers", strings.Join(o.controllers, ","),
		"--kube-api-qps", fmt.Sprint(o.controllerQPS), "--kube-api-burst", fmt.Sprint(o.controllerBurst),
	}
}

func schedulerArgs(f *files) []string {
	return []string{
		"--kubeconfig", f.schedulerKubeconfig, "--leader-elect=false", "--secure-port", "0",
		"--kube-api-qps", "500", "--kube-api-burst", "1000",
	}
}

// processes are the components that run, each this program under another name with a log file of its own.
type processes struct {
	dir     string
	running []*exec.Cmd
	ended   chan error
	gone    sync.WaitGroup
}

func (p *processes) start(name string, args []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(p.dir, name+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(self, append([]string{name}, args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	dieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	p.running = append(p.running, cmd)
	p.gone.Add(1)
	go func() {
		defer p.gone.Done()
		err := cmd.Wait()
		p.ended <- fmt.Errorf("%s ended by itself (%v); the end of its log:\n%s", name, err, tail(log.Name()))
	}()
	return nil
}

// stop ends the components in the order opposite to their start: none of them ever sees its server gone. When it
// returns they have ended, so that their folder can be removed.
func (p *processes) stop() {
	for i := len(p.running) - 1; i >= 0; i-- {
		_ = p.running[i].Process.Signal(syscall.SIGKILL)
	}
	p.gone.Wait()
}

func (p *processes) waitReady(ctx context.Context, name string, client *http.Client, url, token string) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		if response, err := client.Do(request); err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case err := <-p.ended:
			return err
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("%s was not ready within %s; the end of its log:\n%s", name, readyWithin, tail(filepath.Join(p.dir, name+".log")))
			}
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func tail(path string) string {
	const most = 2000
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}

func freePorts(n int) ([]int, error) {
	ports := make([]int, 0, n)
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		// Held until all are chosen, so that no two are the same.
		defer listener.Close()
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
