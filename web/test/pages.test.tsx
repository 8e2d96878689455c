// @vitest-environment happy-dom
import { h, render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { KINDS } from "../src/api/kinds";
import { Live } from "../src/api/live";
import type { KubeObject, Line } from "../src/api/types";
import { Clusters } from "../src/pages/Clusters";
import { Detail } from "../src/pages/Detail";
import { Events } from "../src/pages/Events";
import { Fleet } from "../src/pages/Fleet";
import { Nodes } from "../src/pages/Nodes";
import { Placements } from "../src/pages/Placements";
import { Sync } from "../src/pages/Sync";
import { LiveContext } from "../src/ui/hooks";
import { Login } from "../src/ui/Login";
import { Shell } from "../src/ui/Shell";

const since = "2026-01-01T00:00:00Z";
const made = (kind: string, name: string, rest: object, metadata: object = {}): KubeObject => ({
  apiVersion: "x/v1", kind, ...rest, metadata: { name, namespace: "default", resourceVersion: "1", creationTimestamp: since, ...metadata },
});
const ready = { type: "Ready", status: "True", reason: "Fine", message: "", lastTransitionTime: since };

const FLEET: Record<string, KubeObject[]> = {
  workers: [made("Worker", "worker-1", { spec: { capacity: 10 }, status: { phase: "Running", availableCapacity: 8 } })],
  managedclusters: [
    made("ManagedCluster", "east", { status: { phase: "Running", assignedWorker: "worker-1", nodes: 2, conditions: [ready] } }),
    made("ManagedCluster", "moon", { status: { phase: "Pending", errors: [{ message: "nobody is in location moon" }] } }),
  ],
  clusters: [made("Cluster", "east", { spec: { kubeconfig: "very secret" }, status: { allocatable: { cpu: "8", memory: "32Gi" }, available: { cpu: "2", memory: "16Gi" }, syncedResources: ["configmaps"], conditions: [ready] } }, { namespace: undefined, labels: { "shoal.dev/managedcluster": "default.east" } })],
  placements: [made("Placement", "rule", { spec: { selects: [{ kind: "Deployment" }] }, status: { placed: 1, conditions: [{ ...ready, type: "Valid" }] } })],
  deployments: [
    made("Deployment", "web", { spec: { replicas: 4 }, status: { readyReplicas: 4 } }),
    made("Deployment", "web--east", { spec: { replicas: 4 }, status: { readyReplicas: 4 } }, { labels: { "workloads.kcp.dev/cluster": "east", "kcp.dev/owned-by": "web" } }),
  ],
  events: [made("Event", "e1", { type: "Warning", reason: "NoRoom", message: "nobody has room", lastTimestamp: since, involvedObject: { kind: "ManagedCluster", namespace: "default", name: "moon" } })],
};

function lines(id: string, objects: KubeObject[]): Line[] {
  const end = { metadata: { name: "", resourceVersion: "2", annotations: { "k8s.io/initial-events-end": "true" } } };
  return [...objects.map((object): Line => ({ id, type: "ADDED", object })), { id, type: "BOOKMARK", object: end }];
}

function liveWith(fleet: Record<string, KubeObject[]>): Live {
  const live = new Live("t");
  live.connection = "live";
  for (const kind of KINDS) for (const line of lines(kind.id, fleet[kind.id] ?? [])) live.get(kind.id).take(line);
  const costs = 'karpenter_nodepools_cost_total{cluster="default.east",nodepool="a"} 0.16\nshoal_provision_plan_cost{cluster="default.east"} 0.11\nshoal_provision_plan_bound{cluster="default.east"} 0.1\nshoal_provision_node_cost{cluster="default.east",node_name="n1",nodepool="a"} 0.16';
  live.get("costs").take({ id: "costs", type: "TEXT", object: costs });
  vi.spyOn(live, "look").mockImplementation(() => undefined);
  return live;
}

let root: HTMLElement;
beforeEach(() => {
  root = document.body.appendChild(document.createElement("div"));
});
afterEach(() => {
  render(null, root);
  root.remove();
});

async function show(live: Live, page: preact.VNode): Promise<string> {
  await act(() => render(h(LiveContext.Provider, { value: live }, page), root));
  return root.textContent ?? "";
}
const click = async (title: string): Promise<string> => {
  const button = [...root.querySelectorAll("button")].find((each) => each.textContent?.startsWith(title))!;
  await act(() => button.click());
  return root.textContent ?? "";
};

describe("pages", () => {
  it("show the fleet as a map, and the same as a table", async () => {
    const text = await show(liveWith(FLEET), <Fleet theme="light" />);
    expect(text).toContain("ManagedClusters2 1 running");
    expect(root.querySelector("canvas")!.getAttribute("aria-label")).toBe("Fleet map");
    const table = await click("Table");
    expect(root.querySelector("canvas")).toBeNull();
    expect(table).toContain("worker-1eastRunning275 %");
    expect(table).toContain("Not assignedmoonPending");
  });

  it("show clusters, by phase and by words", async () => {
    const text = await show(liveWith(FLEET), <Clusters />);
    expect(text).toContain("nobody is in location moon");
    expect([...root.querySelectorAll("tbody a")].map((each) => each.getAttribute("href"))).toEqual(["#/o/managedclusters/default/east", "#/o/managedclusters/default/moon"]);
    expect(await click("Pending")).not.toContain("default/east");
    await click("All");
    const search = root.querySelector("input")!;
    await act(() => {
      search.value = "worker-1";
      search.dispatchEvent(new Event("input", { bubbles: true }));
    });
    expect(root.querySelectorAll("tbody tr")).toHaveLength(1);
  });

  it("keep a thousand clusters out of the page but in the table's count", async () => {
    const many = Array.from({ length: 1000 }, (_, at) => made("ManagedCluster", `c${at}`, { status: { phase: "Running", assignedWorker: "worker-1" } }));
    await show(liveWith({ ...FLEET, managedclusters: many }), <Clusters />);
    expect(root.querySelector("table")!.getAttribute("aria-rowcount")).toBe("1001");
    expect(root.querySelectorAll("tbody tr").length).toBeLessThan(60);
  });

  it("show where replicas are, and by which Placement", async () => {
    const text = await show(liveWith(FLEET), <Placements />);
    expect(text).toContain("default/web Deployment");
    expect(text).toContain("by rule4 of 4 ready");
    expect(text).toContain("east 4/4");
    expect(root.querySelectorAll(".card")).toHaveLength(1);
  });

  it("show how full clusters are, and what they cost beside the bound", async () => {
    const text = await show(liveWith(FLEET), <Nodes inside="" />);
    expect(text).toContain("75 %of 8");
    expect(text).toContain("+10.0 %0.110, lower bound 0.100");
    expect(text).toContain("Above the lower bound10.0 %");
  });

  it("look into a cluster for its nodes", async () => {
    const live = liveWith(FLEET);
    const node = made("Node", "n1", { status: { allocatable: { cpu: "4", memory: "8Gi" }, conditions: [ready] } }, { labels: { "karpenter.sh/nodepool": "a" } });
    for (const line of lines("default/east:nodes", [node])) live.get(line.id!).take(line);
    live.get("default/east:costs").take({ id: "", type: "TEXT", object: live.get("costs").text });
    const text = await show(live, <Nodes inside="default/east" />);
    expect(live.look).toHaveBeenCalledWith(["default/east"]);
    expect(text).toContain("n1Ready");
    expect(text).toContain("0.160");
  });

  it("show how sync is", async () => {
    expect(await show(liveWith(FLEET), <Sync />)).toContain("eastYesUnknownUnknown");
  });

  it("show what happened", async () => {
    const text = await show(liveWith(FLEET), <Events />);
    expect(text).toContain("NoRoom");
    expect(text).toContain("Ready True");
    expect(await click("Warnings")).not.toContain("Ready True");
  });

  it("show one object with its YAML, and no secret", async () => {
    const text = await show(liveWith(FLEET), <Detail kindId="clusters" namespace="" name="east" />);
    expect(text).toContain("syncedResources:\n  - configmaps");
    expect(text).toContain("kubeconfig: (not shown)");
    expect(text).not.toContain("very secret");
    expect(await show(liveWith(FLEET), <Detail kindId="managedclusters" namespace="default" name="moon" />)).toContain("nobody has room");
    expect(await show(liveWith(FLEET), <Detail kindId="workers" namespace="x" name="none" />)).toContain("There is no Worker with this name");
  });

  it("say of each kind that it may not be seen", async () => {
    const live = liveWith({});
    for (const kind of KINDS) live.get(kind.id).take({ id: kind.id, type: "ERROR", object: { code: 403, message: `no ${kind.id}` } });
    const pages = [<Fleet theme="" />, <Clusters />, <Placements />, <Nodes inside="" />, <Sync />, <Events />, <Detail kindId="workers" namespace="s" name="w" />];
    for (const page of pages) {
      const text = await show(live, page);
      expect(text).toContain("403 Forbidden");
      expect(text).not.toContain("Loading");
    }
    expect(await show(live, <Clusters />)).toContain("403 Forbidden: you may not read ManagedClustersManagedClustersmissing permission: list, watch managedclusters.infrastructure.cluster.x-k8s.ioMessages of the hubno managedclusters");
  });
});

describe("the frame", () => {
  it("says where one is, and whether the hub is there", async () => {
    const live = liveWith(FLEET);
    const props = { page: "sync", place: "sync", who: { name: "jo", groups: [] }, theme: "auto" as const, onTheme: vi.fn(), onLogout: vi.fn() };
    const text = await show(live, <Shell {...props}>content</Shell>);
    expect(text).toContain("Live");
    expect(root.querySelector("[aria-current=page]")!.textContent).toBe("Sync");
    expect(root.querySelector("a")!.className).toBe("skip");
    await click("Log out");
    expect(props.onLogout).toHaveBeenCalled();
  });

  it("lets nobody in without a token the hub knows", async () => {
    vi.stubGlobal("fetch", async () => new Response("{}", { status: 401 }));
    const enter = vi.fn();
    await act(() => render(<Login said="" onLogin={enter} />, root));
    const field = root.querySelector("textarea")!;
    await act(() => {
      field.value = "wrong";
      field.dispatchEvent(new Event("input", { bubbles: true }));
    });
    await click("Log in");
    await vi.waitFor(() => expect(root.querySelector("[role=alert]")!.textContent).toContain("401 Unauthorized"));
    expect(enter).not.toHaveBeenCalled();
    vi.unstubAllGlobals();
  });
});
