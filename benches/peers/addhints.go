package main

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/endpointslice/topologycache"
)

// slicesHold is how many endpoints the EndpointSlice controller puts in one slice unless it is told otherwise.
const slicesHold = 100

var (
	benchmarkSizes = []int{12, 100, 1000}
	benchmarkZones = []struct{ name, cpu string }{{"zone-a", "8000m"}, {"zone-b", "4000m"}, {"zone-c", "4000m"}}
)

// measurement is one line of output.
type measurement struct {
	Endpoints               int     `json:"endpoints"`
	NanosecondsPerOperation float64 `json:"nanosecondsPerOperation"`
}

func runAddHints(ctx context.Context, args []string, out io.Writer) error {
	if err := parse(flag.NewFlagSet("addhints", flag.ContinueOnError), args); err != nil {
		return err
	}
	lines := json.NewEncoder(out)
	for _, endpoints := range benchmarkSizes {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		result := testing.Benchmark(func(b *testing.B) { benchmarkAddHints(b, endpoints) })
		line := measurement{endpoints, float64(result.T.Nanoseconds()) / float64(result.N)}
		if err := lines.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

// benchmarkAddHints times AddHints alone. Nothing is put back between operations, because AddHints reads no hints of
// slices that are to be updated: it gives each ready endpoint a new one, so that each operation does the same work.
func benchmarkAddHints(b *testing.B, endpoints int) {
	cache, info := benchmarkInput(endpoints)
	logger := logr.Discard()
	b.ReportAllocs()
	for b.Loop() {
		cache.AddHints(logger, info)
	}
}

func benchmarkInput(endpoints int) (*topologycache.TopologyCache, *topologycache.SliceInfo) {
	var nodes []*corev1.Node
	var zones []string
	for _, zone := range benchmarkZones {
		nodes = append(nodes, newNode(zone.name, zone.cpu))
		zones = append(zones, zone.name)
	}
	cache := topologycache.NewTopologyCache()
	cache.SetNodes(logr.Discard(), nodes)
	info := &topologycache.SliceInfo{ServiceKey: namespace + "/" + serviceName, AddressType: discoveryv1.AddressTypeIPv4}
	for chunk := range slices.Chunk(newEndpoints(endpoints, zones), slicesHold) {
		slice := &discoveryv1.EndpointSlice{AddressType: info.AddressType, Endpoints: chunk}
		info.ToUpdate = append(info.ToUpdate, slice)
	}
	return cache, info
}

func newNode(zone, cpu string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:   nodeName(zone, 0),
			Labels: map[string]string{corev1.LabelTopologyZone: zone},
		},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}
