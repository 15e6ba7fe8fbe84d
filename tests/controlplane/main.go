// Command controlplane runs a real Kubernetes control plane on loopback, for tests: etcd, kube-apiserver,
// kube-controller-manager and kube-scheduler as Kubernetes builds them, and KWOK in place of the kubelets.
//
// It is one program: `controlplane up` starts itself again once for each component, so that each has a process,
// flags, feature gates and metrics of its own, just as in a cluster.
//
// `controlplane kube-proxy` starts nothing: it lets kube-proxy's own code say which endpoints of given slices it uses.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	if len(os.Args) > 1 {
		if run, ok := components[os.Args[1]]; ok {
			os.Args = append([]string{os.Args[1]}, os.Args[2:]...)
			run()
			return
		}
	}
	if err := command().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "controlplane",
		Short:         "A real Kubernetes control plane on loopback, for tests",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	options := defaultOptions()
	up := &cobra.Command{
		Use:   "up",
		Short: "Start the control plane, print one JSON line when it is ready, end with standard input or a signal",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return up(ctx, options)
		},
	}
	flags := up.Flags()
	flags.StringVar(&options.dir, "dir", options.dir, "folder for data, certificates and logs (default: a temporary one, removed at the end)")
	flags.StringSliceVar(&options.controllers, "controllers", options.controllers, "controllers that kube-controller-manager runs")
	flags.IntVar(&options.controllerQPS, "kube-api-qps", options.controllerQPS, "client limit of the controllers, requests a second (Kubernetes' default is 20)")
	flags.IntVar(&options.controllerBurst, "kube-api-burst", options.controllerBurst, "client burst of the controllers (Kubernetes' default is 30)")
	flags.BoolVar(&options.scheduler, "scheduler", options.scheduler, "run kube-scheduler")
	flags.BoolVar(&options.kwok, "kwok", options.kwok, "let KWOK play the kubelet of every node without the label "+unmanagedLabel)
	flags.StringArrayVar(&options.apiServerArgs, "apiserver-arg", nil, "one more argument for kube-apiserver (may be repeated)")
	root.AddCommand(up, kubeProxyCommand())
	root.SetContext(context.Background())
	return root
}
