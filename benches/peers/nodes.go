package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// readNodes returns the Nodes of a file that holds YAML documents, a List, or JSON. Other kinds are passed over.
func readNodes(path string) ([]*corev1.Node, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	nodes, err := decodeNodes(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(nodes) == 0 {
		return nil, fmt.Errorf("%s: no Node in it", path)
	}
	return nodes, nil
}

func decodeNodes(r io.Reader) ([]*corev1.Node, error) {
	documents := yaml.NewYAMLOrJSONDecoder(r, 4096)
	var nodes []*corev1.Node
	for number := 1; ; number++ {
		var document runtime.RawExtension
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			return nodes, nil
		}
		if err == nil {
			nodes, err = appendNodes(nodes, document)
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", number, err)
		}
	}
}

func appendNodes(nodes []*corev1.Node, document runtime.RawExtension) ([]*corev1.Node, error) {
	if document.Raw == nil { // an empty document, or one with comments alone
		return nodes, nil
	}
	var object metav1.TypeMeta
	if err := json.Unmarshal(document.Raw, &object); err != nil {
		return nil, err
	}
	if object.APIVersion != "v1" {
		return nodes, nil
	}
	switch object.Kind {
	case "Node":
		node := &corev1.Node{}
		if err := json.Unmarshal(document.Raw, node); err != nil {
			return nil, err
		}
		return append(nodes, node), nil
	case "List":
		var list metav1.List
		if err := json.Unmarshal(document.Raw, &list); err != nil {
			return nil, err
		}
		for i, item := range list.Items {
			var err error
			if nodes, err = appendNodes(nodes, item); err != nil {
				return nil, fmt.Errorf("item %d: %w", i, err)
			}
		}
		return nodes, nil
	case "NodeList":
		var list corev1.NodeList
		if err := json.Unmarshal(document.Raw, &list); err != nil {
			return nil, err
		}
		for i := range list.Items {
			nodes = append(nodes, &list.Items[i])
		}
		return nodes, nil
	default:
		return nodes, nil
	}
}
