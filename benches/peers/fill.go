package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
)

const (
	filledNamespaces    = 100
	endpointsOfService  = 10
	imagesOfNode        = 10
	writersAtOnce       = 8
	kubeletManager      = "kubelet"
	helmManager         = "helm"
	controllerManager   = "kube-controller-manager"
	slicesManagedBy     = "endpointslice-controller.k8s.io"
	lastChangeTriggered = "endpoints.kubernetes.io/last-change-trigger-time"
)

var filledZones = []string{"europe-west1-b", "europe-west1-c", "europe-west1-d"}

// runFill makes Nodes, Services and their EndpointSlices as a grown cluster has them, each by the writer that makes it
// there, so that the API server gives it the managedFields it has there. Zones are equally large and every endpoint is
// hinted for its own, so that hints are as they should be.
//
// The Services select Pods that do not exist: the EndpointSlice controller must not run, nor the node controller, which
// waits for kubelets.
func runFill(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("fill", flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig `file` of the cluster")
	nodes := flags.Int("nodes", 5000, "how many Nodes")
	services := flags.Int("services", 10000, fmt.Sprintf("how many Services, each with %d endpoints", endpointsOfService))
	if err := parse(flags, args); err != nil {
		return err
	}
	if *nodes < len(filledZones) || *services < 0 {
		return fmt.Errorf("fill: --nodes is at least %d and --services at least 0", len(filledZones))
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	config.QPS = -1
	config.ContentType = runtime.ContentTypeProtobuf
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	f := &filler{clients: clients, nodes: *nodes, now: metav1.Now()}
	steps := []struct {
		what  string
		count int
		write func(ctx context.Context, number int) error
	}{
		{"namespaces", filledNamespaces, f.writeNamespace},
		{"nodes", *nodes, f.writeNode},
		{"services", *services, f.writeService},
	}
	for _, step := range steps {
		if err := inParallel(ctx, step.count, step.write); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		fmt.Fprintf(out, "%d %s\n", step.count, step.what)
	}
	return nil
}

func inParallel(ctx context.Context, count int, write func(ctx context.Context, number int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writersAtOnce)
	for number := range count {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error { return write(ctx, number) })
	}
	return group.Wait()
}

type filler struct {
	clients kubernetes.Interface
	nodes   int
	now     metav1.Time
}

func (f *filler) writeNamespace(ctx context.Context, number int) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: filledNamespace(number)}}
	_, err := f.clients.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{FieldManager: helmManager})
	return err
}

func (f *filler) writeNode(ctx context.Context, number int) error {
	nodes := f.clients.CoreV1().Nodes()
	node := filledNode(number)
	created, err := nodes.Create(ctx, node, metav1.CreateOptions{FieldManager: kubeletManager})
	if err != nil {
		return err
	}
	created.Status = filledNodeStatus(number, f.now)
	_, err = nodes.UpdateStatus(ctx, created, metav1.UpdateOptions{FieldManager: kubeletManager})
	return err
}

func (f *filler) writeService(ctx context.Context, number int) error {
	service := filledService(number)
	services := f.clients.CoreV1().Services(service.Namespace)
	service, err := services.Create(ctx, service, metav1.CreateOptions{FieldManager: helmManager})
	if err != nil {
		return err
	}
	slice := filledSlice(service, f.filledEndpoints(service, number), f.now)
	slices := f.clients.DiscoveryV1().EndpointSlices(service.Namespace)
	_, err = slices.Create(ctx, slice, metav1.CreateOptions{FieldManager: controllerManager})
	return err
}

func filledNamespace(number int) string {
	return fmt.Sprintf("team-%03d", number%filledNamespaces)
}

func filledZone(number int) string {
	return filledZones[number%len(filledZones)]
}

func filledNodeName(number int) string {
	return fmt.Sprintf("gke-production-workers-%s-%s", suffix(filledZone(number), 8), suffix(fmt.Sprint("node ", number), 6))
}

// podAddress is an address in the Pods' range of a node, 10.128.0.0/24 for the first.
func podAddress(node, number int) string {
	return fmt.Sprintf("10.%d.%d.%d", 128+node/256, node%256, number)
}

func filledNode(number int) *corev1.Node {
	name, zone := filledNodeName(number), filledZone(number)
	pods := podAddress(number, 0) + "/24"
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				corev1.LabelArchStable:             "amd64",
				corev1.LabelOSStable:               "linux",
				corev1.LabelHostname:               name,
				corev1.LabelInstanceTypeStable:     "n2-standard-8",
				corev1.LabelTopologyRegion:         "europe-west1",
				corev1.LabelTopologyZone:           zone,
				"beta.kubernetes.io/arch":          "amd64",
				"beta.kubernetes.io/os":            "linux",
				"beta.kubernetes.io/instance-type": "n2-standard-8",
				"cloud.google.com/gke-nodepool":    "workers",
				"cloud.google.com/machine-family":  "n2",
				"topology.gke.io/zone":             zone,
			},
			Annotations: map[string]string{
				"csi.volume.kubernetes.io/nodeid": fmt.Sprintf(
					`{"pd.csi.storage.gke.io":"projects/production/zones/%s/instances/%s"}`, zone, name),
				"node.alpha.kubernetes.io/ttl":                           "300",
				"volumes.kubernetes.io/controller-managed-attach-detach": "true",
			},
		},
		Spec: corev1.NodeSpec{
			PodCIDR:    pods,
			PodCIDRs:   []string{pods},
			ProviderID: fmt.Sprintf("gce://production/%s/%s", zone, name),
		},
	}
}

func filledNodeStatus(number int, now metav1.Time) corev1.NodeStatus {
	return corev1.NodeStatus{
		Capacity:    nodeResources("8", "32880648Ki"),
		Allocatable: nodeResources("7910m", "29052936Ki"),
		Conditions:  nodeConditions(now),
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.64.%d.%d", number/250, number%250+2)},
			{Type: corev1.NodeHostName, Address: filledNodeName(number)},
			{Type: corev1.NodeInternalDNS, Address: filledNodeName(number) + ".c.production.internal"},
		},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 10250}},
		NodeInfo: corev1.NodeSystemInfo{
			MachineID:               string(uid(fmt.Sprint("machine ", number))),
			SystemUUID:              string(uid(fmt.Sprint("system ", number))),
			BootID:                  string(uid(fmt.Sprint("boot ", number))),
			KernelVersion:           "6.12.41+",
			OSImage:                 "Container-Optimized OS from Google",
			ContainerRuntimeVersion: "containerd://2.1.4",
			KubeletVersion:          "v1.37.2",
			OperatingSystem:         "linux",
			Architecture:            "amd64",
		},
		Images: nodeImages(number),
	}
}

func nodeResources(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse(cpu),
		corev1.ResourceMemory:           resource.MustParse(memory),
		corev1.ResourceEphemeralStorage: resource.MustParse("98831908Ki"),
		corev1.ResourcePods:             resource.MustParse("110"),
		"hugepages-1Gi":                 resource.MustParse("0"),
		"hugepages-2Mi":                 resource.MustParse("0"),
	}
}

func nodeConditions(now metav1.Time) []corev1.NodeCondition {
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason, message string) corev1.NodeCondition {
		return corev1.NodeCondition{
			Type: kind, Status: status, Reason: reason, Message: message, LastHeartbeatTime: now, LastTransitionTime: now,
		}
	}
	return []corev1.NodeCondition{
		condition(corev1.NodeNetworkUnavailable, corev1.ConditionFalse, "RouteCreated", "NodeController create implicit route"),
		condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
		condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
		condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
		condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"),
	}
}

func nodeImages(number int) []corev1.ContainerImage {
	images := make([]corev1.ContainerImage, imagesOfNode)
	for i := range images {
		repository := fmt.Sprintf("europe-docker.pkg.dev/production/images/service-%d", (number+i*37)%400)
		digest := uid(repository) + uid(repository+"@")
		images[i] = corev1.ContainerImage{
			Names:     []string{fmt.Sprintf("%s@sha256:%s", repository, digest), repository + ":v1.4.2"},
			SizeBytes: int64(20_000_000 + 1_000_003*i),
		}
	}
	return images
}

func filledService(number int) *corev1.Service {
	name := fmt.Sprintf("service-%05d", number)
	namespace := filledNamespace(number)
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name:      name,
			Namespace: namespace,
			Labels: map[string]string{
				"app.kubernetes.io/name":       name,
				"app.kubernetes.io/instance":   name,
				"app.kubernetes.io/version":    "1.4.2",
				"app.kubernetes.io/managed-by": "Helm",
				"helm.sh/chart":                "service-3.1.0",
			},
			Annotations: map[string]string{
				corev1.AnnotationTopologyMode:    "Auto",
				"meta.helm.sh/release-name":      name,
				"meta.helm.sh/release-namespace": namespace,
			},
		},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app.kubernetes.io/name": name, "app.kubernetes.io/instance": name},
			Ports: []corev1.ServicePort{
				{Name: "http", Port: 80, TargetPort: intstr.FromString("http"), Protocol: corev1.ProtocolTCP},
				{Name: "metrics", Port: 9090, TargetPort: intstr.FromString("metrics"), Protocol: corev1.ProtocolTCP},
			},
		},
	}
}

// filledSlice is what the EndpointSlice controller makes for a Service.
func filledSlice(service *corev1.Service, endpoints []discoveryv1.Endpoint, now metav1.Time) *discoveryv1.EndpointSlice {
	labels := map[string]string{
		discoveryv1.LabelServiceName: service.Name,
		discoveryv1.LabelManagedBy:   slicesManagedBy,
	}
	for key, value := range service.Labels {
		labels[key] = value
	}
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name:            service.Name + "-" + suffix("slice of "+service.Name, 5),
			GenerateName:    service.Name + "-",
			Namespace:       service.Namespace,
			Labels:          labels,
			Annotations:     map[string]string{lastChangeTriggered: now.UTC().Format(time.RFC3339)},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(service, corev1.SchemeGroupVersion.WithKind("Service"))},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{
			{Name: ptr.To("http"), Port: ptr.To[int32](8080), Protocol: ptr.To(corev1.ProtocolTCP)},
			{Name: ptr.To("metrics"), Port: ptr.To[int32](9090), Protocol: ptr.To(corev1.ProtocolTCP)},
		},
		Endpoints: endpoints,
	}
}

// filledEndpoints spreads the Pods of a Service over the zones one by one, and all Pods evenly over the nodes.
func (f *filler) filledEndpoints(service *corev1.Service, number int) []discoveryv1.Endpoint {
	endpoints := make([]discoveryv1.Endpoint, endpointsOfService)
	replicaSet := service.Name + "-" + suffix("ReplicaSet of "+service.Name, 10)
	// Whole rounds of the zones alone, so that ten Pods in a row are in each three or four times.
	inUse := f.nodes - f.nodes%len(filledZones)
	for i := range endpoints {
		place := number*endpointsOfService + i
		node := place % inUse
		pod := replicaSet + "-" + suffix(fmt.Sprint("Pod ", place), 5)
		zone := filledZone(node)
		endpoints[i] = discoveryv1.Endpoint{
			Addresses:  []string{podAddress(node, 2+place/inUse%250)},
			Conditions: conditions(true),
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: service.Namespace, Name: pod, UID: uid(pod)},
			NodeName:   ptr.To(filledNodeName(node)),
			Zone:       ptr.To(zone),
			Hints:      &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: zone}}},
		}
	}
	return endpoints
}
