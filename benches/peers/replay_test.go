package main

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func replayed(t *testing.T, args ...string) heuristicOutcome {
	t.Helper()
	var out bytes.Buffer
	if err := runReplay(context.Background(), args, &out); err != nil {
		t.Fatal(err)
	}
	var played outcome
	if err := json.Unmarshal(out.Bytes(), &played); err != nil {
		t.Fatal(err)
	}
	if played.Traces != 1 || len(played.Heuristics) != 1 {
		t.Fatalf("%d traces, %d heuristics", played.Traces, len(played.Heuristics))
	}
	return played.Heuristics[0]
}

// The controller does not look at a node whose CPU changes: four endpoints stay hinted two by two where 2:1 is the CPU.
// For five it still reckons with equal zones, which can't share them.
func TestTheExampleHasTheMeasuresThatCanBeWorkedOutByHand(t *testing.T) {
	got := replayed(t, "--trace", "../../examples/trace.jsonl")
	if got.Events != 5 || got.Flips != 1 || got.HintedStates != 2 || got.Violations != 1 {
		t.Errorf("%+v", got)
	}
	if changes := got.ByEvent["podAdded"].HintChanges; changes != 4 {
		t.Errorf("podAdded changed %d hints, not 4", changes)
	}
	shares := 3.0/4 + (2.0/3*1/2 + 1.0/3) + (2.0/3*2/5 + 1.0/3*3/5) + 1 + 2.0/3
	if math.Abs(got.MeanInZoneShare-shares/5) > 1e-9 {
		t.Errorf("a mean in-zone share of %v, not %v", got.MeanInZoneShare, shares/5)
	}
	// Two thirds of the clients share two of four endpoints.
	if math.Abs(got.WorstOverload-1.0/3) > 1e-9 {
		t.Errorf("a worst overload of %v, not 1/3", got.WorstOverload)
	}
}

func TestSlicesHoldNoMoreThanTheyMay(t *testing.T) {
	r := newReplay(3)
	line := traceLine{}
	start := `{"start":{"nodes":[{"node":"n1","zone":"zone-a","milliCpu":1000}],"pods":[` +
		`{"pod":"p1","node":"n1","ip":"10.0.0.1"},{"pod":"p2","node":"n1","ip":"10.0.0.2"},` +
		`{"pod":"p3","node":"n1","ip":"10.0.0.3"},{"pod":"p4","node":"n1","ip":"10.0.0.4"}]}}`
	if err := json.Unmarshal([]byte(start), &line); err != nil {
		t.Fatal(err)
	}
	measures := newMeasures()
	if err := r.step(&line, &measures); err != nil {
		t.Fatal(err)
	}
	if len(r.slices) != 2 {
		t.Errorf("%d slices, not 2", len(r.slices))
	}
}

func TestATraceThatCanNotBeIsToldByFileAndLine(t *testing.T) {
	for text, want := range map[string]string{
		"{\"header\":{\"version\":2}}": "bad.jsonl:1: header.version: 2 is not known here",
		"{\"start\":{}}":               "bad.jsonl:1: a trace begins with a header",
		"{\"header\":{\"version\":1}}\n{\"nodeRemoved\":{\"node\":\"n\"}}": "bad.jsonl:2: nodeRemoved.node: there is no node n now",
	} {
		path := filepath.Join(t.TempDir(), "bad.jsonl")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := runReplay(context.Background(), []string{"--trace", path}, &bytes.Buffer{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, not %s", err, want)
		}
	}
}
