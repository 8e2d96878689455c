// Command flux reconciles manifests with the engine of Flux's kustomize-controller.
//
//	flux diff|apply|prune --kubeconfig FILE [--force] < manifests
//
// It prints one line for each object, `kind/namespace/name action`; tests/real/test_gitops.py reads them.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/polling"
	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/normalize"
	"github.com/fluxcd/pkg/ssa/utils"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	owner    = "kustomize-controller"
	interval = 100 * time.Millisecond
	timeout  = 110 * time.Second
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: flux diff|apply|prune --kubeconfig FILE [--force] < manifests")
		os.Exit(2)
	}
	// A set of its own: libraries put theirs into the common one.
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "of the server to drive")
	force := flags.Bool("force", false, "recreate what cannot be changed")
	flags.Parse(os.Args[2:])
	ctrl.SetLogger(klog.Background())
	if err := run(context.Background(), os.Args[1], *kubeconfig, *force); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, command, kubeconfig string, force bool) error {
	manager, err := connect(kubeconfig)
	if err != nil {
		return err
	}
	objects, err := utils.ReadObjects(os.Stdin)
	if err != nil {
		return err
	}
	if err := normalize.UnstructuredList(objects); err != nil {
		return err
	}
	manager.SetOwnerLabels(objects, "shop", "flux-system")
	switch command {
	case "diff":
		return diff(ctx, manager, objects)
	case "apply":
		return apply(ctx, manager, objects, force)
	case "prune":
		return prune(ctx, manager, objects)
	}
	return fmt.Errorf("no command %q", command)
}

func connect(kubeconfig string) (*ssa.ResourceManager, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	objects, err := client.New(config, client.Options{})
	if err != nil {
		return nil, err
	}
	poller := polling.NewStatusPoller(objects, objects.RESTMapper(), polling.Options{})
	return ssa.NewResourceManager(objects, poller, ssa.Owner{Field: owner, Group: "kustomize.toolkit.fluxcd.io"}), nil
}

func diff(ctx context.Context, manager *ssa.ResourceManager, objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		entry, _, _, err := manager.Diff(ctx, object, ssa.DefaultDiffOptions())
		if err != nil {
			return err
		}
		fmt.Println(entry)
	}
	return nil
}

// apply goes by stages, takes over from kubectl, and waits until everything is as kstatus wants it.
func apply(ctx context.Context, manager *ssa.ResourceManager, objects []*unstructured.Unstructured, force bool) error {
	options := ssa.DefaultApplyOptions()
	options.Force = force
	options.WaitInterval, options.WaitTimeout = interval, timeout
	options.Cleanup = ssa.ApplyCleanupOptions{
		Annotations: []string{corev1.LastAppliedConfigAnnotation},
		FieldManagers: []ssa.FieldManager{
			{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationApply},
			{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationUpdate},
			{Name: "before-first-apply", OperationType: metav1.ManagedFieldsOperationUpdate},
			{Name: owner, OperationType: metav1.ManagedFieldsOperationUpdate},
		},
	}
	changes, err := manager.ApplyAllStaged(ctx, objects, options)
	if changes != nil {
		for _, entry := range changes.Entries {
			fmt.Println(entry)
		}
	}
	if err != nil {
		return err
	}
	return manager.WaitForSetWithContext(ctx, changes.ToObjMetadataSet(), ssa.WaitOptions{Interval: interval, Timeout: timeout})
}

// prune deletes what carries the labels of this owner, and waits until it is gone.
func prune(ctx context.Context, manager *ssa.ResourceManager, objects []*unstructured.Unstructured) error {
	options := ssa.DefaultDeleteOptions()
	options.PropagationPolicy = metav1.DeletePropagationBackground
	options.Inclusions = manager.GetOwnerLabels("shop", "flux-system")
	changes, err := manager.DeleteAll(ctx, objects, options)
	if err != nil {
		return err
	}
	for _, entry := range changes.Entries {
		fmt.Println(entry)
	}
	return manager.WaitForSetTermination(changes, ssa.WaitOptions{Interval: interval, Timeout: timeout})
}
