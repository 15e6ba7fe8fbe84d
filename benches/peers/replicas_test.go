package main

import (
	"bytes"
	"context"
	"os"
	"testing"
)

// The replica table of docs/heuristics.md is made from the file.
func TestTheVectorsOfReplicasAreWhatKubernetesGives(t *testing.T) {
	vectors, err := os.ReadFile("../../tests/vectors/replicas.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	// Kubernetes breaks ties at random; here there must be none.
	for range 100 {
		var out bytes.Buffer
		if err := runReplicas(context.Background(), nil, &out); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(out.Bytes(), vectors) {
			t.Fatal("tests/vectors/replicas.jsonl differs; `make replica-table` writes it")
		}
	}
}
