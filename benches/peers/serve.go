package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/endpointslice/topologycache"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

func runServe(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	bind := flags.String("bind", "", "`address` and port to listen on, such as 127.0.0.1:9443")
	certFile := flags.String("tls-cert-file", "", "PEM `file` of the serving certificate")
	keyFile := flags.String("tls-private-key-file", "", "PEM `file` of its private key")
	nodesFile := flags.String("nodes", "", "`file` of Nodes: YAML documents, a List, or JSON")
	if err := parse(flags, args); err != nil {
		return err
	}
	log.SetLogger(logr.Discard())

	nodes, err := readNodes(*nodesFile)
	if err != nil {
		return err
	}
	cache := topologycache.NewTopologyCache()
	cache.SetNodes(logr.Discard(), nodes)
	hinter, err := newHinter(cache)
	if err != nil {
		return err
	}
	certificate, err := certwatcher.New(*certFile, *keyFile)
	if err != nil {
		return fmt.Errorf("serving certificate: %w", err)
	}
	server, err := newServer(*bind, certificate)
	if err != nil {
		return err
	}
	server.Register("/mutate", &webhook.Admission{Handler: hinter})
	return serve(ctx, server, certificate, out)
}

func newServer(bind string, certificate *certwatcher.CertWatcher) (webhook.Server, error) {
	host, portText, err := net.SplitHostPort(bind)
	if err != nil {
		return nil, fmt.Errorf("--bind: %w", err)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil || port == 0 {
		return nil, fmt.Errorf("--bind: %q is not a port", portText)
	}
	return webhook.NewServer(webhook.Options{
		Host: host,
		Port: int(port),
		TLSOpts: []func(*tls.Config){func(config *tls.Config) {
			config.GetCertificate = certificate.GetCertificate
			// An API server speaks HTTP/1.1 to a webhook behind a Service, and Kubebuilder's projects offer no other by default.
			config.NextProtos = []string{"http/1.1"}
		}},
	}), nil
}

// serve runs the server until ctx ends, and prints `ready` once it takes connections.
func serve(ctx context.Context, server webhook.Server, certificate *certwatcher.CertWatcher, out io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	failed := make(chan error, 1)
	go func() {
		if err := certificate.Start(ctx); err != nil {
			failed <- fmt.Errorf("certificate watcher: %w", err)
			stop()
		}
	}()
	go func() {
		started := server.StartedChecker()
		listening := func(context.Context) (bool, error) { return started(nil) == nil, nil }
		if wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, listening) == nil {
			fmt.Fprintln(out, "ready")
		}
	}()
	if err := server.Start(ctx); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// A hinter answers reviews of EndpointSlices with the hints that Kubernetes' topology cache gives each slice.
type hinter struct {
	cache   *topologycache.TopologyCache
	decoder admission.Decoder
}

func newHinter(cache *topologycache.TopologyCache) (*hinter, error) {
	scheme := runtime.NewScheme()
	if err := discoveryv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return &hinter{cache: cache, decoder: admission.NewDecoder(scheme)}, nil
}

// Handle puts hints on one slice. It is safe for concurrent use.
func (h *hinter) Handle(_ context.Context, request admission.Request) admission.Response {
	slice := &discoveryv1.EndpointSlice{}
	if err := h.decoder.Decode(request, slice); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	service := slice.Labels[discoveryv1.LabelServiceName]
	if service == "" {
		return admission.Allowed("")
	}
	h.cache.AddHints(logr.Discard(), &topologycache.SliceInfo{
		ServiceKey:  request.Namespace + "/" + service,
		AddressType: slice.AddressType,
		ToUpdate:    []*discoveryv1.EndpointSlice{slice},
	})
	hinted, err := json.Marshal(slice)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(request.Object.Raw, hinted)
}
