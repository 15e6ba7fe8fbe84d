package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/endpointslice/topologycache"
	"k8s.io/endpointslice/trafficdist"
	"k8s.io/utils/ptr"
)

const (
	fewestPods, mostPods   = 2, 15
	fewestZones, mostZones = 2, 4
)

// replicas is one line of output: the zone that each endpoint is hinted for, or nothing where there are no hints.
// Endpoint i is in zone i % Zones.
type replicas struct {
	Zones          int   `json:"zones"`
	Pods           int   `json:"pods"`
	Auto           []int `json:"auto"`
	PreferSameZone []int `json:"preferSameZone"`
}

// runReplicas writes the hints of Kubernetes for Services whose pods are spread evenly over zones of equal CPU.
func runReplicas(_ context.Context, args []string, out io.Writer) error {
	if err := parse(flag.NewFlagSet("replicas", flag.ContinueOnError), args); err != nil {
		return err
	}
	lines := json.NewEncoder(out)
	for zones := fewestZones; zones <= mostZones; zones++ {
		for pods := fewestPods; pods <= mostPods; pods++ {
			if err := lines.Encode(hintReplicas(zones, pods)); err != nil {
				return err
			}
		}
	}
	return nil
}

func hintReplicas(zones, pods int) replicas {
	var names []string
	var nodes []*corev1.Node
	for zone := range zones {
		name := fmt.Sprintf("zone-%c", 'a'+zone)
		names = append(names, name)
		nodes = append(nodes, newNode(name, "4"))
	}
	spread := func() []*discoveryv1.EndpointSlice {
		slice := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4}
		for pod := range pods {
			endpoint := discoveryv1.Endpoint{Conditions: conditions(true), Zone: &names[pod%zones]}
			slice.Endpoints = append(slice.Endpoints, endpoint)
		}
		return []*discoveryv1.EndpointSlice{slice}
	}
	cache := topologycache.NewTopologyCache()
	cache.SetNodes(logr.Discard(), nodes)
	auto, _, _ := cache.AddHints(logr.Discard(), &topologycache.SliceInfo{
		ServiceKey:  namespace + "/" + serviceName,
		AddressType: discoveryv1.AddressTypeIPv4,
		ToCreate:    spread(),
	})
	sameZone, _, _ := trafficdist.ReconcileHints(ptr.To(corev1.ServiceTrafficDistributionPreferSameZone), spread(), nil, nil)
	return replicas{zones, pods, hintedZones(auto[0], names), hintedZones(sameZone[0], names)}
}

// hintedZones returns the number of the zone that each endpoint is hinted for, or nothing where one has no hint.
func hintedZones(slice *discoveryv1.EndpointSlice, names []string) []int {
	var zones []int
	for _, endpoint := range slice.Endpoints {
		if endpoint.Hints == nil || len(endpoint.Hints.ForZones) != 1 {
			return nil
		}
		zones = append(zones, slices.Index(names, endpoint.Hints.ForZones[0].Name))
	}
	return zones
}
