package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

const resync = 2 * time.Second

// cached is one informer, what its handlers were told, and how to list the same anew.
type cached struct {
	name     string
	informer cache.SharedIndexInformer
	list     func(context.Context) (runtime.Object, error)

	mutex sync.Mutex
	told  map[string]string
}

func (c *churn) startInformers(ctx context.Context) ([]*cached, error) {
	config := rest.CopyConfig(c.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &observer{next, c.report} })
	typed, err := kubernetes.NewForConfig(protobuf(config))
	if err != nil {
		return nil, err
	}
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	metadataClient, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	// What the caches are compared with comes as JSON, and not through the same clients.
	fresh, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return nil, err
	}
	freshMetadata, err := metadata.NewForConfig(c.config)
	if err != nil {
		return nil, err
	}
	all := metav1.ListOptions{}
	factory := informers.NewSharedInformerFactory(typed, resync)
	dynamicFactory := dynamicinformer.NewDynamicSharedInformerFactory(dynamicClient, resync)
	metadataFactory := metadatainformer.NewSharedInformerFactory(metadataClient, resync)
	core := fresh.CoreV1()
	found := []*cached{
		{name: "configmaps", informer: factory.Core().V1().ConfigMaps().Informer(),
			list: func(ctx context.Context) (runtime.Object, error) { return core.ConfigMaps("").List(ctx, all) }},
		{name: "secrets", informer: factory.Core().V1().Secrets().Informer(),
			list: func(ctx context.Context) (runtime.Object, error) { return core.Secrets("").List(ctx, all) }},
		{name: "namespaces", informer: factory.Core().V1().Namespaces().Informer(),
			list: func(ctx context.Context) (runtime.Object, error) { return core.Namespaces().List(ctx, all) }},
		{name: "events", informer: factory.Core().V1().Events().Informer(),
			list: func(ctx context.Context) (runtime.Object, error) { return core.Events("").List(ctx, all) }},
		{name: "leases", informer: factory.Coordination().V1().Leases().Informer(),
			list: func(ctx context.Context) (runtime.Object, error) {
				return fresh.CoordinationV1().Leases("").List(ctx, all)
			}},
		{name: "widgets", informer: dynamicFactory.ForResource(widgets).Informer(),
			list: func(ctx context.Context) (runtime.Object, error) {
				return c.dynamic.Resource(widgets).List(ctx, all)
			}},
		{name: "metadata of widgets", informer: metadataFactory.ForResource(widgets).Informer(),
			list: func(ctx context.Context) (runtime.Object, error) {
				return freshMetadata.Resource(widgets).List(ctx, all)
			}},
	}
	for _, one := range found {
		one.told = map[string]string{}
		if err := one.informer.SetWatchErrorHandlerWithContext(c.watchFailed(one.name)); err != nil {
			return nil, err
		}
		if _, err := one.informer.AddEventHandler(c.handlers(one)); err != nil {
			return nil, err
		}
	}
	factory.StartWithContext(ctx)
	dynamicFactory.Start(ctx.Done())
	metadataFactory.Start(ctx.Done())
	for _, one := range found {
		if !cache.WaitForCacheSync(ctx.Done(), one.informer.HasSynced) {
			return nil, fmt.Errorf("%s never synced", one.name)
		}
	}
	return found, nil
}

func (c *churn) watchFailed(name string) cache.WatchErrorHandlerWithContext {
	return func(_ context.Context, _ *cache.Reflector, err error) {
		if !c.isBroken(err) && !errors.Is(err, io.EOF) {
			c.report.fail("watch of "+name, err)
		}
	}
}

// handlers keep what they are told, and see to it that no object ever goes back in time.
func (c *churn) handlers(one *cached) cache.ResourceEventHandler {
	keep := func(object any) {
		key, err := cache.MetaNamespaceKeyFunc(object)
		if err != nil {
			c.report.fail(one.name, err)
			return
		}
		version := object.(metav1.Object).GetResourceVersion()
		one.mutex.Lock()
		defer one.mutex.Unlock()
		if old := one.told[key]; number(old) > number(version) {
			c.report.fail(one.name, fmt.Errorf("%s went back from %s to %s", key, old, version))
		}
		one.told[key] = version
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: keep,
		UpdateFunc: func(old, new any) {
			if old.(metav1.Object).GetResourceVersion() == new.(metav1.Object).GetResourceVersion() {
				c.report.count("resyncs")
			}
			keep(new)
		},
		DeleteFunc: func(object any) {
			key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
			if err != nil {
				c.report.fail(one.name, err)
			}
			one.mutex.Lock()
			defer one.mutex.Unlock()
			delete(one.told, key)
		},
	}
}

func number(version string) uint64 {
	parsed, _ := strconv.ParseUint(version, 10, 64)
	return parsed
}

// compare waits for every cache to hold what a list of its own answers: the same keys, versions and content.
func (c *churn) compare(ctx context.Context, caches []*cached) error {
	for _, one := range caches {
		var different []string
		err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 30*time.Second, true,
			func(ctx context.Context) (bool, error) {
				list, err := one.list(ctx)
				if err != nil {
					if c.isBroken(err) {
						return false, nil
					}
					return false, err
				}
				different, err = c.differences(one, list)
				return len(different) == 0, err
			})
		if err != nil && !wait.Interrupted(err) {
			return err
		}
		c.report.Differences = append(c.report.Differences, different...)
	}
	return nil
}

func (c *churn) differences(one *cached, list runtime.Object) ([]string, error) {
	items, err := meta.ExtractList(list)
	if err != nil {
		return nil, err
	}
	c.report.Objects[one.name] = len(items)
	different := []string{}
	listed := map[string]string{}
	for _, item := range items {
		key, err := cache.MetaNamespaceKeyFunc(item)
		if err != nil {
			return nil, err
		}
		listed[key] = item.(metav1.Object).GetResourceVersion()
		held, found, err := one.informer.GetStore().GetByKey(key)
		if err != nil {
			return nil, err
		}
		if !found {
			different = append(different, fmt.Sprintf("%s: %s is missing", one.name, key))
		} else if !equality.Semantic.DeepEqual(untyped(item), untyped(held.(runtime.Object))) {
			different = append(different, fmt.Sprintf("%s: %s differs:\nlisted %+v\ncached %+v", one.name, key, item, held))
		}
	}
	for _, key := range one.informer.GetStore().ListKeys() {
		if _, found := listed[key]; !found {
			different = append(different, fmt.Sprintf("%s: %s is gone", one.name, key))
		}
	}
	one.mutex.Lock()
	defer one.mutex.Unlock()
	if !maps.Equal(one.told, listed) {
		different = append(different, fmt.Sprintf("%s: handlers were told %d objects of %d", one.name, len(one.told), len(listed)))
	}
	return different, nil
}

// untyped is an object without apiVersion and kind, which items of a typed list never have.
func untyped(object runtime.Object) runtime.Object {
	object = object.DeepCopyObject()
	if _, isTyped := object.(runtime.Unstructured); !isTyped {
		object.GetObjectKind().SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind(""))
	}
	return object
}

// observer counts what informers ask for, and the forms they get.
type observer struct {
	next   http.RoundTripper
	report *report
}

func (o *observer) RoundTrip(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	switch {
	case query.Get("sendInitialEvents") == "true":
		o.report.count("watchlists")
	case query.Get("watch") == "true":
		o.report.count("watches")
	default:
		o.report.count("lists")
	}
	response, err := o.next.RoundTrip(request)
	if err == nil && strings.Contains(response.Header.Get("Content-Type"), "protobuf") {
		o.report.count("protobuf")
	}
	return response, err
}
