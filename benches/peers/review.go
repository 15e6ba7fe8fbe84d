package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/utils/ptr"
)

const maxEndpoints = 1000 // the API's limit for one slice

// serviceUID is the UID that cluster.yaml gives the Service.
const serviceUID = "2f0c8f5e-6c0f-4d6b-9a43-0b7a5d1c9e27"

var (
	created   = time.Date(2026, time.March, 2, 8, 14, 55, 0, time.UTC)
	lastWrite = time.Date(2026, time.March, 9, 16, 40, 12, 0, time.UTC)
	thisWrite = time.Date(2026, time.March, 9, 16, 40, 31, 0, time.UTC)
)

func runReview(_ context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("review", flag.ContinueOnError)
	endpoints := flags.Int("endpoints", 100, "`number` of endpoints in the slice, from 1 to 1000")
	zones := flags.String("zones", "zone-a,zone-b,zone-c", "`zones` of the endpoints, with commas between them")
	path := flags.String("out", "", "`file` to write")
	if err := parse(flags, args); err != nil {
		return err
	}
	if *endpoints < 1 || *endpoints > maxEndpoints {
		return fmt.Errorf("review: --endpoints is %d; a slice holds 1 to %d", *endpoints, maxEndpoints)
	}
	names := strings.Split(*zones, ",")
	if slices.Contains(names, "") {
		return fmt.Errorf("review: --zones has an empty name: %q", *zones)
	}
	body, err := encode(newReview(*endpoints, names))
	if err != nil {
		return err
	}
	if err := os.WriteFile(*path, body, 0o644); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s: %d endpoints, %d bytes\n", *path, *endpoints, len(body))
	return err
}

// encode returns a review as an API server's webhook client puts it on the wire: compact JSON and a line feed.
func encode(review *admissionv1.AdmissionReview) ([]byte, error) {
	scheme := runtime.NewScheme()
	if err := admissionv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	codecs := serializer.NewCodecFactory(scheme).WithoutConversion()
	info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	if !ok {
		return nil, fmt.Errorf("no serializer for %s", runtime.ContentTypeJSON)
	}
	return runtime.Encode(codecs.EncoderForVersion(info.Serializer, admissionv1.SchemeGroupVersion), review)
}

// newReview returns the review of the write in which the EndpointSlice controller finds that the slice's last Pod has
// become ready. No endpoint has hints yet, before or after, as when a Service has just been opted in.
func newReview(endpoints int, zones []string) *admissionv1.AdmissionReview {
	slice := newSlice(endpoints, zones, thisWrite)
	old := newSlice(endpoints, zones, lastWrite)
	old.Endpoints[endpoints-1].Conditions = conditions(false)

	kind := metav1.GroupVersionKind(discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"))
	resource := metav1.GroupVersionResource(discoveryv1.SchemeGroupVersion.WithResource("endpointslices"))
	return &admissionv1.AdmissionReview{
		Request: &admissionv1.AdmissionRequest{
			UID:             uid("review"),
			Kind:            kind,
			Resource:        resource,
			RequestKind:     &kind,
			RequestResource: &resource,
			Name:            slice.Name,
			Namespace:       slice.Namespace,
			Operation:       admissionv1.Update,
			UserInfo:        controllerUser(),
			Object:          runtime.RawExtension{Object: slice},
			OldObject:       runtime.RawExtension{Object: old},
			DryRun:          ptr.To(false),
			Options: runtime.RawExtension{Object: &metav1.UpdateOptions{
				TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "UpdateOptions"},
			}},
		},
	}
}

// newSlice returns the Service's slice as it is written at a time.
func newSlice(endpoints int, zones []string, written time.Time) *discoveryv1.EndpointSlice {
	owner := metav1.OwnerReference{
		APIVersion: "v1", Kind: "Service", Name: serviceName, UID: serviceUID,
		Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
	}
	name := serviceName + "-" + suffix("EndpointSlice", 5)
	return &discoveryv1.EndpointSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: discoveryv1.SchemeGroupVersion.String(), Kind: "EndpointSlice"},
		ObjectMeta: metav1.ObjectMeta{
			Name:              name,
			GenerateName:      serviceName + "-",
			Namespace:         namespace,
			UID:               uid(name),
			ResourceVersion:   "1846702",
			Generation:        118,
			CreationTimestamp: metav1.NewTime(created),
			Labels: map[string]string{
				"app":                        serviceName,
				discoveryv1.LabelManagedBy:   "endpointslice-controller.k8s.io",
				discoveryv1.LabelServiceName: serviceName,
			},
			// The trigger is when the Pod's condition changed, just before the write.
			Annotations: map[string]string{
				corev1.EndpointsLastChangeTriggerTime: written.Add(-time.Second).Format(time.RFC3339Nano),
			},
			OwnerReferences: []metav1.OwnerReference{owner},
			ManagedFields:   []metav1.ManagedFieldsEntry{managedFields(written)},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   newEndpoints(endpoints, zones),
		Ports: []discoveryv1.EndpointPort{{
			Name: ptr.To("http"), Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To[int32](8080),
		}},
	}
}

// managedFields says that the EndpointSlice controller owns everything; the list of endpoints is owned as a whole.
func managedFields(written time.Time) metav1.ManagedFieldsEntry {
	const fields = `{"f:addressType":{},"f:endpoints":{},"f:metadata":{` +
		`"f:annotations":{".":{},"f:endpoints.kubernetes.io/last-change-trigger-time":{}},"f:generateName":{},` +
		`"f:labels":{".":{},"f:app":{},"f:endpointslice.kubernetes.io/managed-by":{},"f:kubernetes.io/service-name":{}},` +
		`"f:ownerReferences":{".":{},"k:{\"uid\":\"` + serviceUID + `\"}":{}}},"f:ports":{}}`
	return metav1.ManagedFieldsEntry{
		Manager:    "kube-controller-manager",
		Operation:  metav1.ManagedFieldsOperationUpdate,
		APIVersion: discoveryv1.SchemeGroupVersion.String(),
		Time:       ptr.To(metav1.NewTime(written)),
		FieldsType: "FieldsV1",
		FieldsV1:   metav1.NewFieldsV1(fields),
	}
}

// controllerUser is who writes slices in a cluster whose controllers have a service account each.
func controllerUser() authenticationv1.UserInfo {
	return authenticationv1.UserInfo{
		Username: "system:serviceaccount:kube-system:endpointslice-controller",
		UID:      string(uid("endpointslice-controller")),
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"},
		Extra: map[string]authenticationv1.ExtraValue{
			"authentication.kubernetes.io/credential-id": {"JTI=" + string(uid("token"))},
		},
	}
}
