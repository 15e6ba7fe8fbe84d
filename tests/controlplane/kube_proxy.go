package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	coredefaults "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/discovery"
	discoverydefaults "k8s.io/kubernetes/pkg/apis/discovery/v1"
	"k8s.io/kubernetes/pkg/apis/discovery/validation"
	"k8s.io/kubernetes/pkg/proxy"
)

// kubeProxyQuestion is one line of input: a Service's slices as they are stored, and the nodes that are asked about.
type kubeProxyQuestion struct {
	Nodes  []kubeProxyNode              `json:"nodes"`
	Slices []*discoveryv1.EndpointSlice `json:"slices"`
	// Without one, a Service with the ports of the slices is made up.
	Service *corev1.Service `json:"service"`
}

type kubeProxyNode struct {
	Name string `json:"name"`
	// Empty for a node without a zone.
	Zone string `json:"zone"`
}

// kubeProxyUse says which endpoints kube-proxy on a node uses for one port.
type kubeProxyUse struct {
	Node        string          `json:"node"`
	Zone        string          `json:"zone"`
	AddressType corev1.IPFamily `json:"addressType"`
	Port        string          `json:"port"`
	Protocol    corev1.Protocol `json:"protocol"`
	// As CategorizeEndpoints returns them: null where the Service does not use the policy.
	Cluster []kubeProxyEndpoint `json:"cluster"`
	Local   []kubeProxyEndpoint `json:"local"`
}

type kubeProxyEndpoint struct {
	Address string `json:"address"`
	Port    int    `json:"port"`
	// False where no endpoint is ready and those are used that still serve while they end.
	Ready bool `json:"ready"`
}

func kubeProxyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "kube-proxy",
		Short: "Say which endpoints kube-proxy's own code uses: JSON lines in and out",
		Long: "Reads JSON lines {nodes: [{name, zone}], slices: [EndpointSlice], service: Service or nothing}. For each it " +
			"prints a JSON array with the endpoints that kube-proxy's own code uses on each node for each port.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return answerAsKubeProxy(cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

func answerAsKubeProxy(input io.Reader, output io.Writer) error {
	// It complains of every port without a number, which is no fault here.
	klog.SetLogger(klog.Logger{})
	questions, answers := json.NewDecoder(input), json.NewEncoder(output)
	questions.DisallowUnknownFields()
	for number := 1; ; number++ {
		var question kubeProxyQuestion
		err := questions.Decode(&question)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = question.complete()
		}
		if err != nil {
			return fmt.Errorf("question %d: %w", number, err)
		}
		if err := answers.Encode(question.answer()); err != nil {
			return err
		}
	}
}

// complete does what an API server does before kube-proxy sees the objects, and gives an error where it would refuse them.
func (q *kubeProxyQuestion) complete() error {
	if len(q.Nodes) == 0 || len(q.Slices) == 0 {
		return errors.New("it needs a node and a slice at least")
	}
	for _, node := range q.Nodes {
		if node.Name == "" {
			return errors.New("a node has no name")
		}
	}
	names := map[string]bool{}
	for _, slice := range q.Slices {
		if slice == nil {
			return errors.New("a slice is null")
		}
		if err := completeSlice(slice); err != nil {
			return fmt.Errorf("slice %q: %w", slice.Name, err)
		}
		if names[slice.Name] {
			return fmt.Errorf("two slices have the name %q", slice.Name)
		}
		names[slice.Name] = true
	}
	if q.Service == nil {
		q.Service = serviceOf(q.Slices)
	}
	coredefaults.SetObjectDefaults_Service(q.Service)
	for _, slice := range q.Slices {
		if slice.Namespace != q.Service.Namespace || slice.Labels[discoveryv1.LabelServiceName] != q.Service.Name {
			return fmt.Errorf("slice %q is not of the Service %s/%s", slice.Name, q.Service.Namespace, q.Service.Name)
		}
	}
	return nil
}

func completeSlice(slice *discoveryv1.EndpointSlice) error {
	if slice.Labels[discoveryv1.LabelServiceName] == "" {
		return fmt.Errorf("it has no label %s", discoveryv1.LabelServiceName)
	}
	discoverydefaults.SetObjectDefaults_EndpointSlice(slice)
	var internal discovery.EndpointSlice
	if err := discoverydefaults.Convert_v1_EndpointSlice_To_discovery_EndpointSlice(slice, &internal, nil); err != nil {
		return err
	}
	return validation.ValidateEndpointSliceCreate(&internal).ToAggregate()
}

// serviceOf makes up a Service with a port for each that slices have.
func serviceOf(endpointSlices []*discoveryv1.EndpointSlice) *corev1.Service {
	first := endpointSlices[0]
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: first.Namespace, Name: first.Labels[discoveryv1.LabelServiceName]},
		Spec:       corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.1", "fd00:96::1"}, ClusterIP: "10.96.0.1"},
	}
	type key struct {
		name     string
		protocol corev1.Protocol
	}
	known := map[key]bool{}
	for _, slice := range endpointSlices {
		for _, port := range slice.Ports {
			key := key{*port.Name, *port.Protocol}
			if !known[key] {
				known[key] = true
				service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: key.name, Protocol: key.protocol, Port: 80})
			}
		}
	}
	return service
}

// answer feeds kube-proxy's trackers as its proxiers do, on each node.
func (q *kubeProxyQuestion) answer() []kubeProxyUse {
	uses := []kubeProxyUse{}
	for _, family := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
		if !slices.ContainsFunc(q.Slices, func(slice *discoveryv1.EndpointSlice) bool {
			return slice.AddressType == discoveryv1.AddressType(family)
		}) {
			continue
		}
		changes := proxy.NewServiceChangeTracker(family, nil, nil)
		changes.Update(nil, q.Service)
		ports := proxy.ServicePortMap{}
		ports.Update(changes)
		for _, node := range q.Nodes {
			uses = append(uses, q.usesOn(node, family, ports)...)
		}
	}
	return uses
}

func (q *kubeProxyQuestion) usesOn(node kubeProxyNode, family corev1.IPFamily, ports proxy.ServicePortMap) []kubeProxyUse {
	changes := proxy.NewEndpointsChangeTracker(family, node.Name, nil, nil)
	for _, slice := range q.Slices {
		changes.EndpointSliceUpdate(slice, false)
	}
	endpoints := proxy.EndpointsMap{}
	endpoints.Update(changes)
	labels := map[string]string{}
	if node.Zone != "" {
		labels[corev1.LabelTopologyZone] = node.Zone
	}
	names := slices.SortedFunc(maps.Keys(ports), func(a, b proxy.ServicePortName) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Protocol, b.Protocol))
	})
	uses := make([]kubeProxyUse, 0, len(names))
	for _, name := range names {
		cluster, local, _, _ := proxy.CategorizeEndpoints(endpoints[name], ports[name], node.Name, labels)
		uses = append(uses, kubeProxyUse{
			Node: node.Name, Zone: node.Zone, AddressType: family, Port: name.Port, Protocol: name.Protocol,
			Cluster: shown(cluster), Local: shown(local),
		})
	}
	return uses
}

func shown(endpoints []proxy.Endpoint) []kubeProxyEndpoint {
	if endpoints == nil {
		return nil
	}
	list := make([]kubeProxyEndpoint, 0, len(endpoints))
	for _, endpoint := range endpoints {
		list = append(list, kubeProxyEndpoint{Address: endpoint.IP(), Port: endpoint.Port(), Ready: endpoint.IsReady()})
	}
	return list
}
