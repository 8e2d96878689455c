package main

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const finalizer = "example.com/churn"

// elect lets candidates lead one after the other, each until it is told to stop; the next one takes over.
func (c *churn) elect(ctx context.Context) {
	for number := 0; ctx.Err() == nil; number++ {
		name := fmt.Sprintf("candidate-%d", number%2)
		lock := &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Name: "churn", Namespace: c.namespace},
			Client:     c.typed.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		}
		term, end := context.WithCancel(ctx)
		leaderelection.RunOrDie(term, leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: 4 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: 200 * time.Millisecond,
			ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) {
					c.report.leader(name)
					time.AfterFunc(time.Second, end)
				},
				OnStoppedLeading: func() {},
			},
		})
		end()
	}
}

// reconciler copies spec.size to the status, and lets go of what is deleted.
type reconciler struct {
	client.Client
	churn *churn
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	held := widget("", 0)
	if err := r.Get(ctx, request.NamespacedName, held); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	err := r.bring(ctx, held)
	switch {
	case err == nil:
		r.churn.report.count("reconciled")
	case ctx.Err() != nil:
		// The manager was stopped in the middle of it: nobody's fault.
	case !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !r.churn.isBroken(err):
		r.churn.report.fail("reconcile", err)
	}
	// A conflict is no error: the cache is behind, and the change that made it so brings this request back.
	return ctrl.Result{RequeueAfter: requeue(err)}, nil
}

func requeue(err error) time.Duration {
	if err == nil || apierrors.IsNotFound(err) {
		return 0
	}
	return 20 * time.Millisecond
}

func (r *reconciler) bring(ctx context.Context, held *unstructured.Unstructured) error {
	if !held.GetDeletionTimestamp().IsZero() {
		if controllerutil.RemoveFinalizer(held, finalizer) {
			return r.Update(ctx, held)
		}
		return nil
	}
	if controllerutil.AddFinalizer(held, finalizer) {
		if err := r.Update(ctx, held); err != nil {
			return err
		}
	}
	if isReconciled(held) {
		return nil
	}
	before := client.MergeFrom(held.DeepCopy())
	size, _, _ := unstructured.NestedInt64(held.Object, "spec", "size")
	if err := unstructured.SetNestedField(held.Object, size, "status", "observed"); err != nil {
		return err
	}
	return r.Status().Patch(ctx, held, before)
}

func isReconciled(held *unstructured.Unstructured) bool {
	size, _, _ := unstructured.NestedInt64(held.Object, "spec", "size")
	observed, _, _ := unstructured.NestedInt64(held.Object, "status", "observed")
	return size == observed && held.GetDeletionTimestamp().IsZero()
}

// manage runs a controller-runtime manager that leads by a Lease, until the context ends.
func (c *churn) manage(ctx context.Context) {
	manager, err := ctrl.NewManager(c.config, ctrl.Options{
		LeaderElection: true, LeaderElectionID: "churn-manager", LeaderElectionNamespace: c.namespace,
		LeaderElectionReleaseOnCancel: true,
		Metrics:                       metrics.Options{BindAddress: "0"},
		Client:                        client.Options{Cache: &client.CacheOptions{Unstructured: true}},
		Cache:                         cache.Options{DefaultNamespaces: map[string]cache.Config{c.namespace: {}}},
	})
	if err == nil {
		err = ctrl.NewControllerManagedBy(manager).Named("widgets").For(widget("", 0)).
			WithOptions(controller.Options{MaxConcurrentReconciles: 2}).
			Complete(&reconciler{manager.GetClient(), c})
	}
	if err == nil {
		err = manager.Start(ctx)
	}
	if err != nil {
		c.report.fail("manager", err)
	}
}

func (c *churn) awaitReconciled(ctx context.Context) error {
	waiting := ""
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 30*time.Second, true,
		func(ctx context.Context) (bool, error) {
			list, err := c.widgets().List(ctx, metav1.ListOptions{})
			if err != nil {
				if c.isBroken(err) {
					return false, nil
				}
				return false, err
			}
			for _, item := range list.Items {
				if !isReconciled(&item) {
					waiting = item.GetName()
					return false, nil
				}
			}
			return true, nil
		})
	if wait.Interrupted(err) {
		return fmt.Errorf("%s is still not reconciled", waiting)
	}
	return err
}
