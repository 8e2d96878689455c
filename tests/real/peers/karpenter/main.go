// Karpenter's own scheduler, asked on standard input: NodePools (by weight) and pods of each question, from one of the
// catalogues of its tests. It answers with the claims, their types and pods, and the pods that get none.
package main

import (
	"context"
	"encoding/json"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/fake"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	"sigs.k8s.io/karpenter/pkg/test"
)

type question struct {
	Increasing int           `json:"increasing"`
	Pools      []v1.NodePool `json:"pools"`
	Pods       []corev1.Pod  `json:"pods"`
}

type claim struct {
	Pool  string   `json:"pool"`
	Types []string `json:"types"`
	Pods  []string `json:"pods"`
}

type answer struct {
	Claims   []claim  `json:"claims"`
	Failures []string `json:"failures"`
}

func main() {
	var questions []question
	if err := json.NewDecoder(os.Stdin).Decode(&questions); err != nil {
		panic(err)
	}
	answers := []answer{}
	for i := range questions {
		answers = append(answers, solve(&questions[i]))
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		panic(err)
	}
}

func solve(q *question) answer {
	ctx := options.ToContext(injection.WithControllerName(context.Background(), "provisioner"), test.Options())
	provider := fake.NewCloudProvider()
	if q.Increasing > 0 {
		provider.InstanceTypes = fake.InstanceTypes(q.Increasing)
	}
	types, err := provider.GetInstanceTypes(ctx, nil)
	if err != nil {
		panic(err)
	}
	client, now := fakeclient.NewClientBuilder().Build(), &clock.RealClock{}
	cluster := state.NewCluster(now, client, provider)
	pods, pools := []*corev1.Pod{}, []*v1.NodePool{}
	for i := range q.Pods {
		pods = append(pods, &q.Pods[i])
	}
	sold := map[string][]*cloudprovider.InstanceType{}
	for i := range q.Pools {
		pools = append(pools, &q.Pools[i])
		sold[q.Pools[i].Name] = types
	}
	one := scheduling.NumConcurrentReconciles(1)
	topology, err := scheduling.NewTopology(ctx, client, cluster, nil, pools, sold, pods, one)
	if err != nil {
		panic(err)
	}
	recorder := events.NewRecorder(&record.FakeRecorder{})
	results, err := scheduling.NewScheduler(
		ctx, client, pools, cluster, nil, topology, sold, nil, recorder, now, nil, nil, one,
	).Solve(ctx, pods)
	if err != nil {
		panic(err)
	}
	found := answer{Claims: []claim{}, Failures: []string{}}
	for _, each := range results.NewNodeClaims {
		made := claim{Pool: each.NodePoolName}
		for _, kind := range each.InstanceTypeOptions {
			made.Types = append(made.Types, kind.Name)
		}
		for _, pod := range each.Pods {
			made.Pods = append(made.Pods, pod.Name)
		}
		found.Claims = append(found.Claims, made)
	}
	for pod := range results.PodErrors {
		found.Failures = append(found.Failures, pod.Name)
	}
	return found
}
