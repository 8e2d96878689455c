import { describe, expect, it } from "vitest";
import type { KubeObject } from "../src/api/types";
import { costsOf, gap } from "../src/model/costs";
import { homesOf, totals, usage } from "../src/model/fleet";
import { nodeRows, requests } from "../src/model/nodes";
import { ago, bytes, cores, quantity } from "../src/model/quantity";
import { shown } from "../src/model/shown";
import { density, fromConditions, fromEvent, sorted } from "../src/model/timeline";
import { matches, placementOf, workloadsOf } from "../src/model/workloads";

const obj = (name: string, rest: Partial<KubeObject> = {}, metadata: object = {}): KubeObject =>
  ({ ...rest, metadata: { name, namespace: "default", ...metadata } }) as KubeObject;

describe("quantities", () => {
  it("are read as Kubernetes writes them", () => {
    expect(["500m", "2", "16Gi", "1e3", "57856Mi", "x", undefined].map(quantity)).toEqual([0.5, 2, 2 ** 34, 1000, 57856 * 2 ** 20, 0, 0]);
  });
  it("are shown short", () => {
    expect([cores(0.25), cores(15.5), bytes(2 ** 34), bytes(1536 * 2 ** 20)]).toEqual(["250m", "15.5", "16 Gi", "1.5 Gi"]);
    expect([5, 90, 7200, 200_000].map((s) => ago(new Date(0).toISOString(), s * 1000))).toEqual(["5 s", "1 min", "2 h", "2 d"]);
  });
});

describe("the fleet", () => {
  const worker = obj("w1", { spec: { capacity: 10 }, status: { phase: "Running", availableCapacity: 9 } }, { namespace: "shoal-system" });
  const east = obj("east", { status: { phase: "Running", assignedWorker: "w1", nodes: 2 } });
  const moon = obj("moon", { status: { phase: "Pending", errors: [{ message: "no worker there" }] } });
  const lost = obj("lost", { status: { phase: "Unknown", assignedWorker: "gone" } });
  const cluster = obj("east", { status: { allocatable: { cpu: "8", memory: "32Gi" }, available: { cpu: "2", memory: "32Gi" } } }, { namespace: undefined, labels: { "shoal.dev/managedcluster": "default.east" } });
  const foreign = obj("abroad", { status: { conditions: [{ type: "Ready", status: "False" }] } }, { namespace: undefined });

  it("has a home for every cluster", () => {
    const homes = homesOf([worker], [moon, lost, east], [cluster, foreign]);
    expect(homes.map((each) => [each.title, each.sites.map((site) => site.title)])).toEqual([
      ["w1", ["east"]], ["gone", ["lost"]], ["Not assigned", ["moon"]], ["Other workload Clusters", ["abroad"]],
    ]);
    expect(homes[0]!.note).toBe("9 of 10 slots free");
    expect(homes[0]!.sites[0]).toMatchObject({ tone: "good", nodes: 2, used: 0.75, problem: "" });
    expect(homes[2]!.sites[0]).toMatchObject({ tone: "waiting", problem: "no worker there" });
    expect(homes[3]!.sites[0]).toMatchObject({ tone: "bad", link: ["clusters", "", "abroad"] });
  });
  it("adds up", () => {
    expect(totals([worker], [east, moon], [cluster])).toEqual({ workers: 1, workersReady: 1, clusters: 2, running: 1, nodes: 2, cpu: "8" });
    expect(usage(obj("x")).cpu).toBeUndefined();
  });
  it("calls what is being deleted so", () => {
    const going = obj("east", { status: { phase: "Running" } }, { deletionTimestamp: "now" });
    expect(homesOf([], [going], [])[0]!.sites[0]!.phase).toBe("Terminating");
  });
});

describe("placement", () => {
  const rule = (name: string, priority: number, selects: object[], created = "2026-01-01"): KubeObject =>
    obj(name, { spec: { priority, selects } }, { creationTimestamp: created });
  const web = obj("web", { apiVersion: "apps/v1", spec: { replicas: 6 }, status: { readyReplicas: 5 } }, { labels: { app: "web" } });
  const leaf = (cluster: string, replicas: number, ready: number, annotations = {}): KubeObject =>
    obj(`web--${cluster}`, { spec: { replicas }, status: { readyReplicas: ready } }, { labels: { "workloads.kcp.dev/cluster": cluster, "kcp.dev/owned-by": "web" }, annotations });

  it("goes by priority, then age, then name", () => {
    const all = [{ kind: "Deployment" }];
    const of = (...rules: KubeObject[]): string => placementOf(rules, web, "Deployment", "apps/v1");
    expect(of(rule("a", 1, all), rule("b", 2, all))).toBe("b");
    expect(of(rule("b", 1, all, "2026-01-02"), rule("c", 1, all))).toBe("c");
    expect(of(rule("b", 1, all), rule("a", 1, all))).toBe("a");
    expect(of(rule("a", 1, [{ kind: "Deployment", name: "other" }, { kind: "Job" }]))).toBe("");
    expect(of(rule("a", 1, [{ kind: "Deployment", apiVersion: "apps/v1", labelSelector: { matchLabels: { app: "web" } } }]))).toBe("a");
  });
  it("knows all operators of selectors", () => {
    const says = (operator: string, values?: string[], key = "app"): boolean => matches({ matchExpressions: [{ key, operator, values }] }, { app: "web" });
    expect([says("In", ["web"]), says("In", ["x"]), says("NotIn", ["web"]), says("NotIn", ["x"]), says("NotIn", ["x"], "no")]).toEqual([true, false, false, true, true]);
    expect([says("Exists"), says("Exists", [], "no"), says("DoesNotExist"), says("DoesNotExist", [], "no"), says("Other")]).toEqual([true, false, false, true, false]);
  });
  it("shows a workload with its parts", () => {
    const [found, ...none] = workloadsOf("deployments", "Deployment", [leaf("west", 3, 2, { "workloads.kcp.dev/unschedulable": "1" }), web, leaf("east", 3, 3)], []);
    expect(none).toEqual([]);
    expect(found).toMatchObject({ wanted: 6, ready: 5, tone: "bad", placement: "" });
    expect(found!.parts.map((each) => [each.cluster, each.ready, each.wanted, each.problem])).toEqual([["east", 3, 3, ""], ["west", 2, 3, "1 without a node"]]);
  });
  it("waits where it is in no cluster", () => {
    expect(workloadsOf("deployments", "Deployment", [web], [])[0]!.tone).toBe("waiting");
  });
});

describe("nodes", () => {
  const text = [
    'karpenter_nodepools_cost_total{cluster="default.east",nodepool="a"} 0.16',
    'karpenter_nodepools_cost_total{cluster="default.east",nodepool="b"} 0.3',
    'shoal_provision_node_cost{cluster="default.east",node_name="n1",nodepool="a"} 0.06',
    'shoal_provision_node_cost{cluster="default.east",node_name="n2",nodepool="a"} 0.1',
    'shoal_provision_plan_cost{cluster="default.east"} 0.11',
    'shoal_provision_plan_bound{cluster="default.east"} 0.1',
    'shoal_provision_plan_bound{cluster="default.west"} 0',
    "other 1",
  ].join("\n");
  const node = (name: string, pool: string, type: string): KubeObject =>
    obj(name, { status: { allocatable: { cpu: "4", memory: "8Gi", pods: "110" }, conditions: [{ type: "Ready", status: "True" }] } }, { labels: { "karpenter.sh/nodepool": pool, "node.kubernetes.io/instance-type": type } });
  const pod = (on: string, cpu: string, phase = "Running"): KubeObject => obj("p", { spec: { nodeName: on, containers: [{ resources: { requests: { cpu } } }] }, status: { phase } });

  it("cost what the metrics say", () => {
    const costs = costsOf(text);
    expect([...costs.keys()]).toEqual(["default.east", "default.west"]);
    expect(costs.get("default.east")).toMatchObject({ total: expect.closeTo(0.46), plan: 0.11, bound: 0.1 });
    expect(gap(costs.get("default.east"))).toBeCloseTo(0.1);
    expect(gap(costs.get("default.west"))).toBeUndefined();
  });
  it("have the price that the metrics tell", () => {
    const rows = nodeRows([node("n1", "a", "m"), node("n2", "a", "m"), node("n3", "", "m")], [], costsOf(text).get("default.east"));
    expect(rows.map((each) => each.price)).toEqual([0.06, 0.1, undefined]);
  });
  it("are as full as their pods ask, the finished ones aside", () => {
    const [row] = nodeRows([node("n1", "a", "m")], [pod("n1", "1"), pod("n1", "500m"), pod("n1", "2", "Succeeded"), pod("n2", "3")], undefined);
    expect(row).toMatchObject({ cpu: { used: 1.5, total: 4, share: 0.375 }, pods: { used: 2 }, state: "Ready", tone: "good" });
  });
  it("count a pod by the scheduler's rule", () => {
    const of = (cpu: string, restartPolicy?: string): object => ({ restartPolicy, resources: { requests: { cpu } } });
    expect(requests({ containers: [of("1")], initContainers: [of("3"), of("1", "Always"), of("1")] } as never, "cpu")).toBe(3);
    expect(requests({ containers: [of("2")], initContainers: [of("1", "Always")], overhead: { cpu: "500m" } } as never, "cpu")).toBe(3.5);
  });
});

describe("the timeline", () => {
  const now = Date.parse("2026-01-01T01:00:00Z");
  it("has events and turns of conditions, newest first", () => {
    const event = obj("e", { type: "Warning", reason: "Lost", message: "m", lastTimestamp: "2026-01-01T00:30:00Z", count: 3, involvedObject: { kind: "Worker", namespace: "s", name: "w" } });
    const cluster = obj("east", { status: { conditions: [{ type: "Ready", status: "True", reason: "R", lastTransitionTime: "2026-01-01T00:40:00Z" }, { type: "Orphans", status: "True", lastTransitionTime: "2026-01-01T00:20:00Z" }] } });
    const all = sorted([fromEvent(event), ...fromConditions("clusters", "Cluster", cluster)]);
    expect(all.map((each) => [each.reason, each.tone, each.count])).toEqual([["Ready True", "good", 1], ["Lost", "bad", 3], ["Orphans True", "bad", 1]]);
    expect(all[1]!.link).toEqual(["workers", "s", "w"]);
    expect(density(all, now, 3_600_000, 3).map((each) => [each.good, each.bad])).toEqual([[0, 0], [0, 2], [1, 0]]);
  });
  it("does not take a Cluster API Cluster for a workload Cluster", () => {
    expect(fromEvent(obj("e", { involvedObject: { kind: "Cluster", apiVersion: "cluster.x-k8s.io/v1beta2", name: "x" } })).link).toBeUndefined();
  });
});

describe("what is shown of an object", () => {
  it("has no bookkeeping and no kubeconfig", () => {
    const made = shown(obj("x", { spec: { kubeconfig: "secret", a: 1 } }, { managedFields: [], annotations: { "kubectl.kubernetes.io/last-applied-configuration": "{}" } }));
    expect(JSON.stringify(made)).toBe('{"metadata":{"name":"x","namespace":"default"},"spec":{"a":1,"kubeconfig":"(not shown)"}}');
  });
});
