package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	nodeheartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	"sigs.k8s.io/kwok/pkg/config"
	"sigs.k8s.io/kwok/pkg/kwok/cmd"
	"sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/kwok/pkg/utils/signals"
)

// unmanagedLabel keeps KWOK's hands off a node: a test writes its status, and its pods', itself.
const unmanagedLabel = "zonewise.test/unmanaged"

// runKwok is kwok's own main function, which its module does not export.
func runKwok() {
	flags := pflag.NewFlagSet("global", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}
	ctx, logger := log.InitFlags(signals.SetupSignalContext(), flags)
	ctx, err := config.InitFlags(ctx, flags)
	if err != nil {
		logger.Error("flags", "err", err)
		os.Exit(1)
	}
	command := cmd.NewCommand(ctx)
	// Kubernetes' components claim --version for the whole program, as a flag of another type than KWOK's.
	command.Version = ""
	command.PersistentFlags().AddFlagSet(flags)
	if err := command.ExecuteContext(ctx); err != nil {
		logger.Error("kwok", "err", err)
		os.Exit(1)
	}
}

// writeStages writes the stages of KWOK's module to a file for its --config.
func writeStages(dir string) (string, error) {
	stages := strings.Join([]string{
		nodefast.DefaultNodeInit,
		nodeheartbeat.DefaultNodeHeartbeat,
		podfast.DefaultPodReady,
		podfast.DefaultPodComplete,
		podfast.DefaultPodDelete,
	}, "\n---\n")
	path := filepath.Join(dir, "kwok-stages.yaml")
	if err := os.WriteFile(path, []byte(stages), 0o600); err != nil {
		return "", fmt.Errorf("write KWOK's stages: %w", err)
	}
	return path, nil
}
