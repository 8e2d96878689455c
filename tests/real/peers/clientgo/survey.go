package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/kube-openapi/pkg/util/proto"
)

// strict knows every built-in type, and no field that they do not have.
var strict = serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

// survey fills a cluster cache as Argo CD does: preferred resources of discovery, the structured-merge types of
// OpenAPI v2 in protobuf, a paged list and a retrying watch of everything that can be listed and watched.
func survey(ctx context.Context, config *rest.Config, result *report) error {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	document, err := client.OpenAPISchema()
	if err != nil {
		return err
	}
	result.Counts["definitions"] = len(document.GetDefinitions().GetAdditionalProperties())
	models, err := proto.NewOpenAPIData(document)
	if err != nil {
		return err
	}
	types, err := managedfields.NewGVKParser(models, false)
	if err != nil {
		return err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	lists, err := client.ServerPreferredResources()
	if err != nil {
		return err
	}
	for _, list := range lists {
		for _, resource := range list.APIResources {
			version, err := schema.ParseGroupVersion(list.GroupVersion)
			if err != nil {
				return err
			}
			if !slices.Contains(resource.Verbs, "list") || !slices.Contains(resource.Verbs, "watch") {
				continue
			}
			kind := version.WithKind(resource.Kind)
			one := &surveyed{version.WithResource(resource.Name), objects, result}
			items, err := one.look(ctx)
			if err != nil {
				result.fail(one.resource.String(), err)
				continue
			}
			result.Objects[one.resource.GroupResource().String()] = len(items)
			if scheme.Scheme.Recognizes(kind) {
				if err := compareForms(ctx, client.RESTClient(), one.resource); err != nil {
					result.fail(kind.String(), err)
				}
				result.count("forms")
			}
			if types.Type(kind) == nil {
				result.fail(kind.String(), fmt.Errorf("no type in OpenAPI v2"))
				continue
			}
			for _, item := range items {
				item.SetGroupVersionKind(kind)
				if _, err := types.Type(kind).FromUnstructured(item.Object); err != nil {
					result.fail(kind.String(), fmt.Errorf("%s does not fit its type: %w", item.GetName(), err))
				}
			}
		}
	}
	return nil
}

// compareForms lists as JSON and as protobuf, and has to read the same out of both.
func compareForms(ctx context.Context, client rest.Interface, resource schema.GroupVersionResource) error {
	path := []string{"/apis", resource.Group, resource.Version, resource.Resource}
	if resource.Group == "" {
		path = []string{"/api", resource.Version, resource.Resource}
	}
	read := func(form string) (runtime.Object, error) {
		data, err := client.Get().AbsPath(path...).SetHeader("Accept", form).DoRaw(ctx)
		if err != nil {
			return nil, err
		}
		object, _, err := strict.Decode(data, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", form, err)
		}
		// Items may or may not name their kind.
		return object, meta.EachListItem(object, func(item runtime.Object) error {
			item.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
			return nil
		})
	}
	plain, err := read("application/json")
	if err != nil {
		return err
	}
	packed, err := read("application/vnd.kubernetes.protobuf")
	if err != nil {
		return err
	}
	if !equality.Semantic.DeepEqual(plain, packed) {
		return fmt.Errorf("JSON and protobuf differ: %s", diff.Diff(plain, packed))
	}
	return nil
}

type surveyed struct {
	resource schema.GroupVersionResource
	client   dynamic.Interface
	report   *report
}

// look lists in pages of two, then watches from there for a moment.
func (s *surveyed) look(ctx context.Context) ([]*unstructured.Unstructured, error) {
	client := s.client.Resource(s.resource)
	found := []*unstructured.Unstructured{}
	version := ""
	pages := pager.New(pager.SimplePageFunc(func(options metav1.ListOptions) (runtime.Object, error) {
		list, err := client.List(ctx, options)
		if err == nil {
			version = list.GetResourceVersion()
		}
		return list, err
	}))
	pages.PageSize = 2
	err := pages.EachListItem(ctx, metav1.ListOptions{}, func(item runtime.Object) error {
		found = append(found, item.(*unstructured.Unstructured))
		return nil
	})
	if err != nil {
		return nil, err
	}
	seconds := int64(1)
	source := &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		options.TimeoutSeconds = &seconds
		options.AllowWatchBookmarks = true
		return client.Watch(ctx, options)
	}}
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, version, source)
	if err != nil {
		return nil, err
	}
	defer watcher.Stop()
	select {
	case event := <-watcher.ResultChan():
		if event.Type == watch.Error {
			return nil, fmt.Errorf("watch: %v", event.Object)
		}
	case <-time.After(50 * time.Millisecond):
	}
	s.report.count("watched")
	return found, nil
}
