package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	endpointslice "k8s.io/endpointslice"
	"k8s.io/endpointslice/topologycache"
	endpointsliceutil "k8s.io/endpointslice/util"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

// traceVersion is the version of traces that this reads; docs/simulate.md describes them.
const traceVersion = 1

// longestLine is the longest line of a trace, in bytes, that is read.
const longestLine = 64 << 20

type (
	traceNode struct {
		Node     string `json:"node"`
		Zone     string `json:"zone"`
		MilliCPU int64  `json:"milliCpu"`
	}
	tracePod struct {
		Pod  string `json:"pod"`
		Node string `json:"node"`
		IP   string `json:"ip"`
	}
	// traceLine is a header or an event, whichever is set.
	traceLine struct {
		Header *struct {
			Version int `json:"version"`
		} `json:"header"`
		Start *struct {
			Nodes []traceNode `json:"nodes"`
			Pods  []tracePod  `json:"pods"`
		} `json:"start"`
		PodAdded   *tracePod `json:"podAdded"`
		PodRemoved *struct {
			Pod string `json:"pod"`
		} `json:"podRemoved"`
		PodReplaced *podReplaced `json:"podReplaced"`
		NodeAdded   *traceNode   `json:"nodeAdded"`
		NodeRemoved *struct {
			Node string `json:"node"`
		} `json:"nodeRemoved"`
		NodeResized *traceNode `json:"nodeResized"`
		ZoneLost    *struct {
			Zone string `json:"zone"`
		} `json:"zoneLost"`
		ZoneBack *struct {
			Zone string `json:"zone"`
		} `json:"zoneBack"`
	}
	podReplaced struct {
		Pod string   `json:"pod"`
		By  tracePod `json:"by"`
	}
)

func runReplay(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("replay", flag.ContinueOnError)
	files := flags.String("trace", "", "files with traces, as zonewise simulate --write-trace writes them, parted by commas")
	sliceSize := flags.Int("slice-size", slicesHold, "how many endpoints a slice holds at most")
	if err := parse(flags, args); err != nil {
		return err
	}
	// What the reconciler logs of each event is of no use here.
	klog.SetLogger(logr.Discard())
	played := outcome{Heuristics: []heuristicOutcome{{Heuristic: "Kubernetes", measures: newMeasures()}}}
	for _, file := range strings.Split(*files, ",") {
		traces, err := replayFile(ctx, file, *sliceSize, &played.Heuristics[0].measures)
		if err != nil {
			return err
		}
		played.Traces += traces
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(played)
}

// replayFile plays every trace of a file and returns how many there are.
func replayFile(ctx context.Context, path string, sliceSize int, measures *measures) (int, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, longestLine)
	traces := 0
	var replay *replay
	for number := 1; lines.Scan(); number++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		if ctx.Err() != nil {
			return traces, ctx.Err()
		}
		var line traceLine
		err := json.Unmarshal(lines.Bytes(), &line)
		switch {
		case err != nil:
		case line.Header != nil && line.Header.Version != traceVersion:
			err = fmt.Errorf("header.version: %d is not known here; this reads version %d", line.Header.Version, traceVersion)
		case line.Header != nil:
			replay = newReplay(sliceSize)
			traces++
		case replay == nil:
			err = errors.New("a trace begins with a header")
		default:
			err = replay.step(&line, measures)
		}
		if err != nil {
			return traces, fmt.Errorf("%s:%d: %w", path, number, err)
		}
	}
	return traces, lines.Err()
}

// replay is a cluster with one Service whose slices Kubernetes' own reconciler writes.
type replay struct {
	nodes      map[string]*corev1.Node
	pods       map[string]*corev1.Pod
	slices     map[string]*discoveryv1.EndpointSlice
	names      int
	writes     int
	service    *corev1.Service
	nodeIndex  cache.Indexer
	cache      *topologycache.TopologyCache
	reconciler *endpointslice.Reconciler
	last       *state
}

func newReplay(sliceSize int) *replay {
	r := &replay{
		nodes:     map[string]*corev1.Node{},
		pods:      map[string]*corev1.Pod{},
		slices:    map[string]*discoveryv1.EndpointSlice{},
		nodeIndex: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}),
		cache:     topologycache.NewTopologyCache(),
		service: &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: serviceName, UID: "service",
				Annotations: map[string]string{corev1.AnnotationTopologyMode: "Auto"},
			},
			Spec: corev1.ServiceSpec{
				ClusterIP:  "10.96.0.10",
				IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
				Ports: []corev1.ServicePort{{
					Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromInt32(8080),
				}},
			},
		},
	}
	client := &fake.Clientset{}
	client.AddReactor("*", "endpointslices", r.write)
	r.reconciler = endpointslice.NewReconciler(client, corelisters.NewNodeLister(r.nodeIndex), int32(sliceSize),
		endpointsliceutil.NewEndpointSliceTracker(), r.cache, &record.FakeRecorder{}, "endpointslice-controller.k8s.io")
	return r
}

// write is the API server: it stores what the reconciler writes.
func (r *replay) write(action clienttesting.Action) (bool, runtime.Object, error) {
	r.writes++
	switch action := action.(type) {
	case clienttesting.CreateActionImpl:
		slice := action.GetObject().(*discoveryv1.EndpointSlice).DeepCopy()
		r.names++
		slice.Name = fmt.Sprintf("%s-%04d", serviceName, r.names)
		r.slices[slice.Name] = slice
		return true, slice.DeepCopy(), nil
	case clienttesting.UpdateActionImpl:
		slice := action.GetObject().(*discoveryv1.EndpointSlice).DeepCopy()
		slice.Generation++
		r.slices[slice.Name] = slice
		return true, slice.DeepCopy(), nil
	case clienttesting.DeleteActionImpl:
		delete(r.slices, action.GetName())
		return true, nil, nil
	}
	return true, nil, fmt.Errorf("the reconciler is not expected to %s", action.GetVerb())
}

// step lets an event happen, has the controller react as its queues would, and measures what is stored then.
func (r *replay) step(line *traceLine, measures *measures) error {
	kind, distribution, err := r.apply(line)
	if err != nil {
		return err
	}
	r.writes = 0
	if distribution {
		// The controller syncs the Service if it is overloaded now.
		if r.checkNodes() {
			if err := r.reconcile(); err != nil {
				return err
			}
		}
	}
	if r.podsChanged() {
		if err := r.reconcile(); err != nil {
			return err
		}
	}
	now := r.observe()
	if r.last != nil {
		measures.add(kind, r.last, now, r.writes)
	}
	r.last = now
	return nil
}

// checkNodes is the controller's checkNodeTopologyDistribution. It returns whether the Service is to be synced.
func (r *replay) checkNodes() bool {
	var nodes []*corev1.Node
	for _, node := range r.nodes {
		nodes = append(nodes, node)
	}
	r.cache.SetNodes(logr.Discard(), nodes)
	return len(r.cache.GetOverloadedServices()) > 0
}

func (r *replay) reconcile() error {
	var pods []*corev1.Pod
	for _, pod := range r.pods {
		pods = append(pods, pod)
	}
	var stored []*discoveryv1.EndpointSlice
	for _, slice := range r.slices {
		stored = append(stored, slice)
	}
	return r.reconciler.Reconcile(logr.Discard(), r.service, pods, stored, time.Time{})
}

// podsChanged says whether the slices hold other pods than there are.
func (r *replay) podsChanged() bool {
	held := 0
	for _, slice := range r.slices {
		for _, endpoint := range slice.Endpoints {
			if _, ok := r.pods[endpoint.TargetRef.Name]; !ok {
				return true
			}
			held++
		}
	}
	return held != len(r.pods)
}

// apply changes nodes and pods. It returns the event's word, and whether the controller looks at the nodes anew: it does
// for a node that comes, goes, or changes readiness or zone, and not for one whose CPU changes (updateNode of
// k8s.io/kubernetes/pkg/controller/endpointslice).
func (r *replay) apply(line *traceLine) (kind string, distribution bool, err error) {
	switch {
	case line.Start != nil:
		for _, node := range line.Start.Nodes {
			r.setNode(&node, true)
		}
		for _, pod := range line.Start.Pods {
			r.pods[pod.Pod] = r.newPod(&pod)
		}
		return "start", true, nil
	case line.PodAdded != nil:
		r.pods[line.PodAdded.Pod] = r.newPod(line.PodAdded)
		return "podAdded", false, nil
	case line.PodRemoved != nil:
		delete(r.pods, line.PodRemoved.Pod)
		return "podRemoved", false, nil
	case line.PodReplaced != nil:
		delete(r.pods, line.PodReplaced.Pod)
		r.pods[line.PodReplaced.By.Pod] = r.newPod(&line.PodReplaced.By)
		return "podReplaced", false, nil
	case line.NodeAdded != nil:
		r.setNode(line.NodeAdded, true)
		return "nodeAdded", true, nil
	case line.NodeRemoved != nil:
		return "nodeRemoved", true, r.removeNode(line.NodeRemoved.Node)
	case line.NodeResized != nil:
		node, ok := r.nodes[line.NodeResized.Node]
		if !ok {
			return "", false, fmt.Errorf("nodeResized.node: there is no node %s now", line.NodeResized.Node)
		}
		resized := traceNode{line.NodeResized.Node, node.Labels[corev1.LabelTopologyZone], line.NodeResized.MilliCPU}
		r.setNode(&resized, isReady(node))
		return "nodeResized", false, nil
	case line.ZoneLost != nil:
		r.setReady(line.ZoneLost.Zone, false)
		return "zoneLost", true, nil
	case line.ZoneBack != nil:
		r.setReady(line.ZoneBack.Zone, true)
		return "zoneBack", true, nil
	}
	return "", false, errors.New("no event of a kind that is known here")
}

func (r *replay) setNode(described *traceNode, ready bool) {
	status := corev1.ConditionTrue
	if !ready {
		status = corev1.ConditionUnknown
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:   described.Node,
			Labels: map[string]string{corev1.LabelTopologyZone: described.Zone},
		},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(described.MilliCPU, resource.DecimalSI)},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}},
		},
	}
	r.nodes[described.Node] = node
	// An indexer in memory refuses only what has no name.
	_ = r.nodeIndex.Add(node)
}

func (r *replay) removeNode(name string) error {
	node, ok := r.nodes[name]
	if !ok {
		return fmt.Errorf("nodeRemoved.node: there is no node %s now", name)
	}
	delete(r.nodes, name)
	_ = r.nodeIndex.Delete(node)
	r.removePodsOn(name)
	return nil
}

func (r *replay) setReady(zone string, ready bool) {
	for name, node := range r.nodes {
		if node.Labels[corev1.LabelTopologyZone] == zone {
			r.setNode(&traceNode{name, zone, milliCPU(node)}, ready)
			if !ready {
				r.removePodsOn(name)
			}
		}
	}
}

func (r *replay) removePodsOn(node string) {
	for name, pod := range r.pods {
		if pod.Spec.NodeName == node {
			delete(r.pods, name)
		}
	}
}

func (r *replay) newPod(described *tracePod) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: described.Pod, UID: types.UID(described.Pod)},
		Spec:       corev1.PodSpec{NodeName: described.Node},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			PodIP:      described.IP,
			PodIPs:     []corev1.PodIP{{IP: described.IP}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
}

func isReady(node *corev1.Node) bool {
	return node.Status.Conditions[0].Status == corev1.ConditionTrue
}

func milliCPU(node *corev1.Node) int64 {
	return ptr.To(node.Status.Allocatable[corev1.ResourceCPU]).MilliValue()
}
