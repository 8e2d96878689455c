package main

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"
)

// Writers keep this many objects each; what they write is told apart by its number.
const kept = 20

func patchOf(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return text
}

func labels(round int) map[string]string {
	return map[string]string{"app": "churn", "round": fmt.Sprint(round)}
}

// writeConfigMap goes through the life of one object: create, update, three kinds of patch, delete.
func (c *churn) writeConfigMap(ctx context.Context, round int) {
	client := c.typed.CoreV1().ConfigMaps(c.namespace)
	name := fmt.Sprintf("life-%d", round)
	c.do("create", func() error {
		_, err := client.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels(round)},
			Data:       map[string]string{"round": fmt.Sprint(round), "text": "näh\u2028"},
			BinaryData: map[string][]byte{"bytes": {0, 255, byte(round)}},
		}, metav1.CreateOptions{})
		return err
	})
	c.do("update", func() error {
		return retry.RetryOnConflict(retry.DefaultRetry, func() error {
			held, err := client.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			held.Data["updated"] = "yes"
			_, err = client.Update(ctx, held, metav1.UpdateOptions{})
			return err
		})
	})
	patches := map[types.PatchType][]byte{
		types.StrategicMergePatchType: patchOf(map[string]any{"data": map[string]any{"strategic": "yes"}}),
		types.MergePatchType:          patchOf(map[string]any{"data": map[string]any{"merge": "yes", "text": nil}}),
		types.JSONPatchType: patchOf([]map[string]any{
			{"op": "test", "path": "/data/updated", "value": "yes"},
			{"op": "add", "path": "/data/json", "value": "yes"},
		}),
	}
	for kind, patch := range patches {
		c.do("patch", func() error {
			_, err := client.Patch(ctx, name, kind, patch, metav1.PatchOptions{})
			return err
		})
	}
	held, err := client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		if !c.isBroken(err) {
			c.report.fail("get", err)
		}
	} else if got := fmt.Sprint(held.Data); got != fmt.Sprintf("map[json:yes merge:yes round:%d strategic:yes updated:yes]", round) {
		c.report.fail("get", fmt.Errorf("%s has %s", name, got))
	}
	if round >= kept {
		c.do("delete", func() error {
			return client.Delete(ctx, fmt.Sprintf("life-%d", round-kept), metav1.DeleteOptions{})
		})
	}
}

// writeSecret makes Secrets that clear deletes as a collection.
func (c *churn) writeSecret(ctx context.Context, round int) {
	c.do("create", func() error {
		_, err := c.typed.CoreV1().Secrets(c.namespace).Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("secret-%d", round), Labels: labels(round % 3)},
			StringData: map[string]string{"password": fmt.Sprint(round)},
		}, metav1.CreateOptions{})
		return err
	})
}

func (c *churn) clear(ctx context.Context, round int) {
	if round%20 == 0 {
		c.do("deletecollection", func() error {
			return c.typed.CoreV1().Secrets(c.namespace).DeleteCollection(
				ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app=churn,round=1"})
		})
	}
}

// applyConfigMap applies as two managers; the second one conflicts, and then takes over by force.
func (c *churn) applyConfigMap(ctx context.Context, round int) {
	client := c.typed.CoreV1().ConfigMaps(c.namespace)
	name := fmt.Sprintf("applied-%d", round%kept)
	wanted := func(value string) *applycorev1.ConfigMapApplyConfiguration {
		return applycorev1.ConfigMap(name, c.namespace).WithLabels(labels(round)).WithData(map[string]string{"owner": value})
	}
	first, second := fmt.Sprint("first ", round), fmt.Sprint("second ", round)
	c.do("apply", func() error {
		_, err := client.Apply(ctx, wanted(first), metav1.ApplyOptions{FieldManager: "first", Force: true})
		return err
	})
	c.do("conflict", func() error {
		_, err := client.Apply(ctx, wanted(second), metav1.ApplyOptions{FieldManager: "second"})
		if apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) {
			return nil
		}
		if err == nil {
			return apierrors.NewBadRequest("no conflict")
		}
		return err
	})
	c.do("apply", func() error {
		got, err := client.Apply(ctx, wanted(second), metav1.ApplyOptions{FieldManager: "second", Force: true})
		if err == nil && got.Data["owner"] != second {
			return apierrors.NewBadRequest("not applied: " + got.Data["owner"])
		}
		return err
	})
	if round%10 == 9 {
		held, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			if !c.isBroken(err) {
				c.report.fail("get", err)
			}
			return
		}
		extracted, err := applycorev1.ExtractConfigMap(held, "second")
		if err != nil || extracted.Data["owner"] != second {
			c.report.fail("extract", fmt.Errorf("%v from %v", err, held))
		}
	}
}

// applyNamespace makes namespaces and deletes them with what is in them.
func (c *churn) applyNamespace(ctx context.Context, round int) {
	if round%25 != 0 {
		return
	}
	name := fmt.Sprintf("%s-%d", c.namespace, round)
	c.do("apply", func() error {
		_, err := c.typed.CoreV1().Namespaces().Apply(
			ctx, applycorev1.Namespace(name).WithLabels(labels(round)), metav1.ApplyOptions{FieldManager: "churn"})
		return err
	})
	c.do("create", func() error {
		_, err := c.typed.CoreV1().ConfigMaps(name).Create(
			ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "inside"}}, metav1.CreateOptions{})
		return err
	})
	if round%50 == 0 {
		c.do("delete", func() error {
			return c.typed.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})
		})
	}
}

func (c *churn) widgets() dynamic.ResourceInterface {
	return c.dynamic.Resource(widgets).Namespace(c.namespace)
}

func widget(name string, size int) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"name": name},
		"spec":     map[string]any{"size": int64(size)},
	}}
}

func (c *churn) writeWidget(ctx context.Context, round int) {
	c.do("create", func() error {
		_, err := c.widgets().Create(ctx, widget(fmt.Sprintf("made-%d", round), 1), metav1.CreateOptions{})
		return err
	})
	c.do("patch", func() error {
		_, err := c.widgets().Patch(ctx, fmt.Sprintf("made-%d", round), types.MergePatchType,
			patchOf(map[string]any{"spec": map[string]any{"size": round + 2}}), metav1.PatchOptions{})
		return err
	})
	if round >= kept {
		// The controller's finalizer keeps it until the controller saw it.
		c.do("delete", func() error {
			return c.widgets().Delete(ctx, fmt.Sprintf("made-%d", round-kept), metav1.DeleteOptions{})
		})
	}
}

func (c *churn) applyWidget(ctx context.Context, round int) {
	name := fmt.Sprintf("applied-%d", round%kept)
	c.do("apply", func() error {
		_, err := c.widgets().Apply(ctx, name, widget(name, round+1), metav1.ApplyOptions{FieldManager: "churn", Force: true})
		return err
	})
}
