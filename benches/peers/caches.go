package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// runCaches holds what zonewise watches in the caches of a manager, and prints `ready` once they have synced.
func runCaches(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("caches", flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig `file` of the cluster")
	strip := flags.Bool("strip-managed-fields", false, "keep no metadata.managedFields, as controller-runtime offers")
	if err := parse(flags, args); err != nil {
		return err
	}
	log.SetLogger(logr.Discard())

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	options := manager.Options{Metrics: server.Options{BindAddress: "0"}}
	if *strip {
		options.Cache.DefaultTransform = cache.TransformStripManagedFields()
	}
	mgr, err := manager.New(config, options)
	if err != nil {
		return err
	}
	for _, object := range []client.Object{&corev1.Node{}, &corev1.Service{}, &discoveryv1.EndpointSlice{}} {
		if _, err := mgr.GetCache().GetInformer(ctx, object, cache.BlockUntilSynced(false)); err != nil {
			return err
		}
	}
	err = mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return errors.New("the caches did not sync")
		}
		_, err := fmt.Fprintln(out, "ready")
		return err
	}))
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}
