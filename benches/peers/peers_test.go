package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/endpointslice/topologycache"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

var zones = []string{"zone-a", "zone-b", "zone-c"}

func TestEveryReadyEndpointGetsAHintInProportionToCPU(t *testing.T) {
	review := decodedReview(t, 100)
	response := clusterHinter(t).Handle(context.Background(), admission.Request{AdmissionRequest: *review.Request})
	if !response.Allowed {
		t.Fatalf("refused: %v", response.Result)
	}
	for _, operation := range response.Patches {
		if !strings.HasPrefix(operation.Path, "/endpoints/") || !strings.HasSuffix(operation.Path, "/hints") {
			t.Errorf("the patch touches %s", operation.Path)
		}
	}
	hinted := hintsByZone(t, patched(t, review.Request.Object.Raw, response))
	if want := map[string]int{"zone-a": 50, "zone-b": 25, "zone-c": 25}; !maps.Equal(hinted, want) {
		t.Errorf("hints %v, not %v", hinted, want)
	}
}

func TestASliceOfNoServiceIsLeftAsItIs(t *testing.T) {
	request := admission.Request{}
	request.Object.Raw = []byte(`{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","endpoints":[],"ports":[]}`)
	response := clusterHinter(t).Handle(context.Background(), request)
	if !response.Allowed || len(response.Patches) > 0 {
		t.Errorf("allowed %v, patch %v", response.Allowed, response.Patches)
	}
}

func TestAReviewHoldsTwoSlicesThatDifferInOneReadyEndpoint(t *testing.T) {
	body, err := encode(newReview(100, zones))
	if err != nil {
		t.Fatal(err)
	}
	if size := len(body); size < 60_000 || size > 66_000 {
		t.Errorf("%d bytes, not about 63 KB", size)
	}
	request := decodedReview(t, 100).Request
	slice, old := decodedSlice(t, request.Object.Raw), decodedSlice(t, request.OldObject.Raw)
	if readyEndpoints(slice) != 100 || readyEndpoints(old) != 99 {
		t.Errorf("%d ready endpoints after %d, not 100 after 99", readyEndpoints(slice), readyEndpoints(old))
	}
	if !bytes.Contains(body, []byte(`"dryRun":false`)) || bytes.Contains(body, []byte(": ")) {
		t.Error("not as an API server writes it")
	}
}

func TestAddressesPodsAndUIDsAreUnique(t *testing.T) {
	addresses, pods, uids := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, endpoint := range newEndpoints(maxEndpoints, zones) {
		addresses[endpoint.Addresses[0]] = true
		pods[endpoint.TargetRef.Name] = true
		uids[string(endpoint.TargetRef.UID)] = true
	}
	if len(addresses) != maxEndpoints || len(pods) != maxEndpoints || len(uids) != maxEndpoints {
		t.Errorf("%d addresses, %d Pods, %d UIDs", len(addresses), len(pods), len(uids))
	}
}

func TestEndpointsAreOnNodesOfTheClusterAndInTheirZones(t *testing.T) {
	nodes, err := readNodes("cluster.yaml")
	if err != nil {
		t.Fatal(err)
	}
	zoneOf := map[string]string{}
	for _, node := range nodes {
		zoneOf[node.Name] = node.Labels[corev1.LabelTopologyZone]
	}
	used := map[string]bool{}
	for _, endpoint := range newEndpoints(100, zones) {
		if zoneOf[*endpoint.NodeName] != *endpoint.Zone {
			t.Errorf("node %s is in zone %q, the endpoint in %s", *endpoint.NodeName, zoneOf[*endpoint.NodeName], *endpoint.Zone)
		}
		used[*endpoint.NodeName] = true
	}
	if len(used) != 6 || len(nodes) != 6 {
		t.Errorf("%d of %d nodes have endpoints", len(used), len(nodes))
	}
}

func TestNodesAreReadFromDocumentsListsAndJSON(t *testing.T) {
	node := func(name string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"Node","metadata":{"name":%q}}`, name)
	}
	service := `{"apiVersion":"v1","kind":"Service","metadata":{"name":"web"}}`
	cases := map[string]string{
		"YAML documents": "# nodes\n---\n" + node("a") + "\n---\n" + service + "\n---\n---\n" + node("b") + "\n",
		"a YAML List":    "apiVersion: v1\nkind: List\nitems:\n- " + node("a") + "\n- " + service + "\n- " + node("b") + "\n",
		"a JSON List":    `{"apiVersion":"v1","kind":"List","items":[` + node("a") + "," + service + "," + node("b") + "]}",
		"a NodeList":     `{"apiVersion":"v1","kind":"NodeList","items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}`,
		"a JSON stream":  node("a") + "\n" + service + "\n" + node("b"),
	}
	for name, text := range cases {
		t.Run(name, func(t *testing.T) {
			nodes, err := decodeNodes(strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, node := range nodes {
				names = append(names, node.Name)
			}
			if !slices.Equal(names, []string{"a", "b"}) {
				t.Errorf("nodes %v", names)
			}
		})
	}
}

// What the benchmark relies on: an operation after the first does what the first did.
func TestAddHintsGivesTheSameAgainFromItsOwnResult(t *testing.T) {
	for _, size := range benchmarkSizes {
		cache, info := benchmarkInput(size)
		cache.AddHints(logr.Discard(), info)
		first := totalHints(t, info)
		cache.AddHints(logr.Discard(), info)
		if again := totalHints(t, info); !maps.Equal(first, again) {
			t.Errorf("%d endpoints: %v, then %v", size, first, again)
		}
		if first["zone-a"] <= 2*size/10 {
			t.Errorf("%d endpoints: nothing was redistributed: %v", size, first)
		}
	}
}

func BenchmarkAddHints(b *testing.B) {
	for _, size := range benchmarkSizes {
		b.Run(fmt.Sprint(size), func(b *testing.B) { benchmarkAddHints(b, size) })
	}
}

func clusterHinter(t *testing.T) *hinter {
	t.Helper()
	nodes, err := readNodes("cluster.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cache := topologycache.NewTopologyCache()
	cache.SetNodes(logr.Discard(), nodes)
	hinter, err := newHinter(cache)
	if err != nil {
		t.Fatal(err)
	}
	return hinter
}

func decodedReview(t *testing.T, endpoints int) *admissionv1.AdmissionReview {
	t.Helper()
	body, err := encode(newReview(endpoints, zones))
	if err != nil {
		t.Fatal(err)
	}
	review := &admissionv1.AdmissionReview{}
	if err := json.Unmarshal(body, review); err != nil {
		t.Fatal(err)
	}
	return review
}

func decodedSlice(t *testing.T, raw []byte) *discoveryv1.EndpointSlice {
	t.Helper()
	slice := &discoveryv1.EndpointSlice{}
	if err := json.Unmarshal(raw, slice); err != nil {
		t.Fatal(err)
	}
	return slice
}

func patched(t *testing.T, raw []byte, response admission.Response) *discoveryv1.EndpointSlice {
	t.Helper()
	if err := response.Complete(admission.Request{}); err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(response.Patch)
	if err != nil {
		t.Fatal(err)
	}
	after, err := patch.Apply(raw)
	if err != nil {
		t.Fatal(err)
	}
	return decodedSlice(t, after)
}

func readyEndpoints(slice *discoveryv1.EndpointSlice) int {
	ready := 0
	for _, endpoint := range slice.Endpoints {
		if topologycache.EndpointReady(endpoint) {
			ready++
		}
	}
	return ready
}

// hintsByZone counts the hints of a slice, each of whose endpoints must have one.
func hintsByZone(t *testing.T, slice *discoveryv1.EndpointSlice) map[string]int {
	t.Helper()
	count := map[string]int{}
	for i, endpoint := range slice.Endpoints {
		if endpoint.Hints == nil || len(endpoint.Hints.ForZones) != 1 {
			t.Fatalf("endpoint %d has hints %v", i, endpoint.Hints)
		}
		count[endpoint.Hints.ForZones[0].Name]++
	}
	return count
}

func totalHints(t *testing.T, info *topologycache.SliceInfo) map[string]int {
	t.Helper()
	total := map[string]int{}
	for _, slice := range info.ToUpdate {
		for zone, hints := range hintsByZone(t, slice) {
			total[zone] += hints
		}
	}
	return total
}
