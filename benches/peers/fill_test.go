package main

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestFilledEndpointsAreHintedForTheZoneOfTheirNodeAndSpreadEvenly(t *testing.T) {
	const nodes, services = 50, 40
	zoneOf := map[string]string{}
	for number := range nodes {
		node := filledNode(number)
		zoneOf[node.Name] = node.Labels[corev1.LabelTopologyZone]
	}
	if len(zoneOf) != nodes {
		t.Fatalf("%d names of %d nodes", len(zoneOf), nodes)
	}
	f := &filler{nodes: nodes}
	addresses := map[string]bool{}
	for number := range services {
		inZone := map[string]int{}
		for _, endpoint := range f.filledEndpoints(filledService(number), number) {
			zone := zoneOf[*endpoint.NodeName]
			if *endpoint.Zone != zone || endpoint.Hints.ForZones[0].Name != zone {
				t.Errorf("in zone %s, on a node of %s, hinted for %s", *endpoint.Zone, zone, endpoint.Hints.ForZones[0].Name)
			}
			inZone[zone]++
			addresses[endpoint.Addresses[0]] = true
		}
		for zone, count := range inZone {
			if count < 3 || count > 4 {
				t.Errorf("Service %d has %d endpoints in %s", number, count, zone)
			}
		}
	}
	if len(addresses) != services*endpointsOfService {
		t.Errorf("%d addresses of %d endpoints", len(addresses), services*endpointsOfService)
	}
}
