// Command peers is what zonewise is measured against: the topology hints that Kubernetes itself computes
// (k8s.io/endpointslice/topologycache), behind an admission webhook as most Go projects write one (controller-runtime).
//
// It also writes the request that both are measured with, times Kubernetes' planning alone, and fills a cluster to hold
// it in controller-runtime's caches.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

const usage = `Usage: peers COMMAND [flags]

Commands:
  serve      answer admission reviews of EndpointSlices at POST /mutate with Kubernetes' hints
  addhints   time Kubernetes' AddHints, one JSON line for each number of endpoints
  review     write the admission review that an API server sends for an EndpointSlice update
  replicas   write Kubernetes' hints for 2 to 15 pods that are spread evenly over 2 to 4 zones, one JSON line each
  replay     play traces of zonewise simulate through Kubernetes' EndpointSlice reconciler, and measure its hints
  fill       make the Nodes, Services and EndpointSlices of a large cluster
  caches     hold a cluster's Nodes, Services and EndpointSlices in controller-runtime's caches

peers COMMAND --help shows the flags of a command.
`

// A command parses its own arguments and runs until it is done or ctx ends.
type command func(ctx context.Context, args []string, out io.Writer) error

var commands = map[string]command{
	"serve":    runServe,
	"addhints": runAddHints,
	"review":   runReview,
	"replicas": runReplicas,
	"replay":   runReplay,
	"fill":     runFill,
	"caches":   runCaches,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("no command given; it is one of serve, addhints, review, replicas, replay, fill and caches")
	}
	switch args[0] {
	case "help", "-h", "--help":
		fmt.Fprint(out, usage)
		return nil
	}
	command, ok := commands[args[0]]
	if !ok {
		return fmt.Errorf("unknown command %q; it is one of serve, addhints, review, replicas, replay, fill and caches", args[0])
	}
	return command(ctx, args[1:], out)
}

// parse reads the flags of a command, each of which must be given unless it has a default, and no other arguments.
func parse(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%s: unexpected argument %q", flags.Name(), flags.Arg(0))
	}
	var missing error
	flags.VisitAll(func(f *flag.Flag) {
		if f.Value.String() == "" && missing == nil {
			missing = fmt.Errorf("%s: --%s is required", flags.Name(), f.Name)
		}
	})
	return missing
}
