// capi reads every object of Cluster API that a server has into upstream's v1beta2 types, strictly, and back.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

var kinds = map[string]func() any{
	"clusters":            func() any { return &clusterv1.Cluster{} },
	"machines":            func() any { return &clusterv1.Machine{} },
	"machinesets":         func() any { return &clusterv1.MachineSet{} },
	"machinedeployments":  func() any { return &clusterv1.MachineDeployment{} },
	"machinehealthchecks": func() any { return &clusterv1.MachineHealthCheck{} },
}

type report struct {
	Objects     map[string]int `json:"objects"`
	Differences []string       `json:"differences"`
}

func main() {
	config := flag.String("kubeconfig", "", "of the server")
	flag.Parse()
	if err := run(*config); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(file string) error {
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	found := report{Objects: map[string]int{}, Differences: []string{}}
	for plural, empty := range kinds {
		resource := schema.GroupVersionResource{
			Group: clusterv1.GroupVersion.Group, Version: clusterv1.GroupVersion.Version, Resource: plural,
		}
		list, err := client.Resource(resource).List(context.Background(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		found.Objects[plural] = len(list.Items)
		for _, item := range list.Items {
			if difference := compare(item.Object, empty()); difference != "" {
				name := fmt.Sprintf("%s %s/%s: ", plural, item.GetNamespace(), item.GetName())
				found.Differences = append(found.Differences, name+difference)
			}
		}
	}
	return json.NewEncoder(os.Stdout).Encode(found)
}

// compare tells what is lost or new on the way through the type; nothing when all comes back.
func compare(sent map[string]any, typed any) string {
	text, err := json.Marshal(sent)
	if err != nil {
		return err.Error()
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(typed); err != nil {
		return err.Error()
	}
	again, err := json.Marshal(typed)
	if err != nil {
		return err.Error()
	}
	var before, after any
	if err := json.Unmarshal(text, &before); err != nil {
		return err.Error()
	}
	if err := json.Unmarshal(again, &after); err != nil {
		return err.Error()
	}
	return differing("", before, after)
}

func differing(path string, before, after any) string {
	first, isMap := before.(map[string]any)
	second, areMaps := after.(map[string]any)
	if !isMap || !areMaps {
		if reflect.DeepEqual(before, after) {
			return ""
		}
		return fmt.Sprintf("%s is %v, and %v in Go", path, before, after)
	}
	for key, value := range first {
		if found, has := second[key]; !has {
			return fmt.Sprintf("%s.%s (%v) is lost in Go", path, key, value)
		} else if difference := differing(path+"."+key, value, found); difference != "" {
			return difference
		}
	}
	for key, value := range second {
		if _, has := first[key]; !has {
			return fmt.Sprintf("%s.%s (%v) is new in Go", path, key, value)
		}
	}
	return ""
}
