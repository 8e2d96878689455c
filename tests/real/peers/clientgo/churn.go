package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

var widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

// churn is one run: everything writes for a while, then the caches are compared with what the server has.
type churn struct {
	config    *rest.Config
	namespace string
	cut       bool
	report    *report

	typed   kubernetes.Interface
	dynamic dynamic.Interface
}

func (c *churn) run(ctx context.Context, duration time.Duration) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var err error
	if c.typed, err = kubernetes.NewForConfig(protobuf(c.config)); err != nil {
		return err
	}
	if c.dynamic, err = dynamic.NewForConfig(c.config); err != nil {
		return err
	}
	caches, err := c.startInformers(ctx)
	if err != nil {
		return err
	}
	say("synced")

	working, rest := context.WithTimeout(ctx, duration)
	defer rest()
	var writers sync.WaitGroup
	for _, write := range []func(context.Context, int){
		c.writeConfigMap, c.writeSecret, c.applyConfigMap, c.applyNamespace, c.writeWidget, c.applyWidget, c.clear,
	} {
		writers.Go(func() {
			for number := 0; working.Err() == nil; number++ {
				write(ctx, number)
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	managing, stopManaging := context.WithCancel(ctx)
	defer stopManaging()
	var managers sync.WaitGroup
	managers.Go(func() { c.elect(managing) })
	managers.Go(func() { c.manage(managing) })
	writers.Wait()
	if err := c.awaitReconciled(ctx); err != nil {
		c.report.fail("controller", err)
	}
	stopManaging()
	managers.Wait()

	// The test's own writers end when they read this, and say so.
	say("settled")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return c.compare(ctx, caches)
}

// isBroken tells whether an error is only that of a connection that was cut.
func (c *churn) isBroken(err error) bool {
	if !c.cut {
		return false
	}
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return true
	}
	return apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) ||
		apierrors.HasStatusCause(err, "ClientWatchDecoding")
}

// do is one write that has to succeed. After a cut nobody knows whether it happened, so its second attempt may
// find that it did.
func (c *churn) do(what string, write func() error) bool {
	for attempt := 0; ; attempt++ {
		err := write()
		if err == nil || attempt > 0 && (apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)) {
			c.report.count(what)
			return true
		}
		if !c.isBroken(err) || attempt == 50 {
			c.report.fail(what, err)
			return false
		}
		c.report.count("broken")
	}
}
