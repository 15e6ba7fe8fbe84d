package main

import (
	"crypto/sha256"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

const (
	namespace   = "shop"
	serviceName = "web"
	deployment  = "storefront-web"
	// nodesPerZone is how many nodes each zone has in cluster.yaml.
	nodesPerZone = 2
)

// placement says which zone each of ten endpoints in a row is in: 2 in the first zone, 5 in the second, 3 in the third.
// Half of the CPU is in the first zone, so that hints have to differ from where endpoints are.
var placement = [...]int{1, 2, 1, 0, 1, 2, 1, 0, 1, 2}

// newEndpoints returns ready endpoints as the EndpointSlice controller makes them of Pods, unevenly spread over zones
// (see placement). With more than three zones, each ten endpoints are in the next three zones.
func newEndpoints(count int, zones []string) []discoveryv1.Endpoint {
	endpoints := make([]discoveryv1.Endpoint, count)
	inZone := make([]int, len(zones))
	for i := range endpoints {
		zone := (placement[i%len(placement)] + 3*(i/len(placement))) % len(zones)
		node := nodeName(zones[zone], inZone[zone]%nodesPerZone)
		inZone[zone]++
		pod := fmt.Sprintf("%s-%s-%s", deployment, suffix("ReplicaSet", 10), suffix(fmt.Sprint("Pod ", i), 5))
		endpoints[i] = discoveryv1.Endpoint{
			Addresses:  []string{fmt.Sprintf("10.244.%d.%d", i/250, i%250+2)},
			Conditions: conditions(true),
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: pod, UID: uid(pod)},
			NodeName:   &node,
			Zone:       ptr.To(zones[zone]),
		}
	}
	return endpoints
}

// nodeName returns the name that cluster.yaml gives a node, in the manner of cloud providers.
func nodeName(zone string, number int) string {
	return fmt.Sprintf("production-workers-%s-%s-%s", zone, suffix(zone, 8), suffix(fmt.Sprint(zone, " node ", number), 4))
}

func conditions(ready bool) discoveryv1.EndpointConditions {
	return discoveryv1.EndpointConditions{Ready: ptr.To(ready), Serving: ptr.To(ready), Terminating: ptr.To(false)}
}

// uid returns the same UID for the same seed: what is written can be written again.
func uid(seed string) types.UID {
	sum := sha256.Sum256([]byte(seed))
	sum[6] = sum[6]&0x0f | 0x40 // version 4
	sum[8] = sum[8]&0x3f | 0x80 // the variant of RFC 9562
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]))
}

// suffix returns text such as Kubernetes appends to generated names.
func suffix(seed string, length int) string {
	const alphabet = "bcdfghjklmnpqrstvwxz2456789"
	var text strings.Builder
	for _, b := range sha256.Sum256([]byte(seed)) {
		if text.Len() == length {
			break
		}
		text.WriteByte(alphabet[int(b)%len(alphabet)])
	}
	return text.String()
}
