import type { KubeObject } from "../api/types";
import { nameOf } from "../api/types";
import { phaseOf, problemOf, readyOf, toneOf, type Tone } from "./phases";
import { cores, quantity } from "./quantity";

/** The fleet as a picture needs it: homes with the clusters in them. */
export interface Site {
  /** Unique in the picture: kind and name. */
  key: string;
  name: string;
  title: string;
  phase: string;
  tone: Tone;
  nodes: number;
  /** Of cpu, 0 to 1; absent where it is not known. */
  used?: number;
  problem: string;
  /** Kind, namespace and name for its own page. */
  link: [kind: string, namespace: string, name: string];
}

export interface Home {
  key: string;
  title: string;
  /** Worker: hosts clusters. Waiting: nobody hosts them. Registered: clusters of somebody else. */
  sort: "worker" | "waiting" | "registered";
  phase: string;
  tone: Tone;
  note: string;
  sites: Site[];
  link?: [kind: string, namespace: string, name: string];
}

export function homesOf(workers: KubeObject[], managed: KubeObject[], clusters: KubeObject[]): Home[] {
  const homes = new Map<string, Home>();
  for (const worker of [...workers].sort(byName)) homes.set(worker.metadata.name, homeOf(worker));
  const waiting = island("waiting", "Not assigned");
  const registered = island("registered", "Other workload Clusters");
  const byManaged = new Map<string, KubeObject>();
  for (const cluster of clusters) {
    const owner = cluster.metadata.labels?.["shoal.dev/managedcluster"];
    if (owner) byManaged.set(owner, cluster);
    else registered.sites.push(workloadSite(cluster));
  }
  for (const each of [...managed].sort(byName)) {
    const worker = String(each.status?.assignedWorker ?? "");
    let home = worker ? homes.get(worker) : waiting;
    if (!home) {
      // Its Worker may not be seen, or is gone: the cluster is there all the same.
      home = { key: `worker/${worker}`, title: worker, sort: "worker", phase: "Unknown", tone: "unknown", note: "", sites: [] };
      homes.set(worker, home);
    }
    home.sites.push(managedSite(each, byManaged.get(`${each.metadata.namespace}.${each.metadata.name}`)));
  }
  return [...homes.values(), ...[waiting, registered].filter((each) => each.sites.length > 0)];
}

const byName = (a: KubeObject, b: KubeObject): number => (nameOf(a) < nameOf(b) ? -1 : 1);

const island = (sort: "waiting" | "registered", title: string): Home => ({
  key: sort, title, sort, phase: "", tone: sort === "waiting" ? "waiting" : "good", note: "", sites: [],
});

function homeOf(worker: KubeObject): Home {
  const phase = phaseOf(worker);
  const free = worker.status?.availableCapacity as number | undefined;
  const marks = [
    worker.spec?.location as string | undefined,
    free === undefined ? undefined : `${free} of ${worker.spec?.capacity ?? "?"} slots free`,
    worker.spec?.drain ? "draining" : worker.spec?.unschedulable ? "cordoned" : undefined,
  ];
  return {
    key: `worker/${worker.metadata.name}`,
    title: worker.metadata.name,
    sort: "worker",
    phase,
    tone: toneOf(phase),
    note: marks.filter(Boolean).join(", "),
    sites: [],
    link: ["workers", worker.metadata.namespace ?? "", worker.metadata.name],
  };
}

function managedSite(managed: KubeObject, cluster: KubeObject | undefined): Site {
  const phase = phaseOf(managed);
  const { namespace = "", name } = managed.metadata;
  return {
    key: `managedclusters/${namespace}/${name}`,
    name,
    title: namespace === "default" ? name : `${namespace}/${name}`,
    phase,
    tone: toneOf(phase),
    nodes: Number(managed.status?.nodes ?? 0),
    used: cluster ? usage(cluster).cpu?.share : undefined,
    problem: phase === "Running" ? "" : problemOf(managed),
    link: ["managedclusters", namespace, name],
  };
}

function workloadSite(cluster: KubeObject): Site {
  const ready = readyOf(cluster);
  const { name } = cluster.metadata;
  return {
    key: `clusters//${name}`,
    name,
    title: name,
    phase: ready === "True" ? "Ready" : ready === "False" ? "Not ready" : "Unknown",
    tone: toneOf(ready),
    nodes: 0,
    used: usage(cluster).cpu?.share,
    problem: "",
    link: ["clusters", "", name],
  };
}

export interface Share {
  used: number;
  total: number;
  share: number;
}

/** Of a workload Cluster: what its nodes have, and what pods ask of it. */
export function usage(cluster: KubeObject): { cpu?: Share; memory?: Share; pods?: Share } {
  const { allocatable, available } = (cluster.status ?? {}) as Record<string, Record<string, string> | undefined>;
  const share = (resource: string): Share | undefined => {
    if (!allocatable?.[resource] || !available) return undefined;
    const total = quantity(allocatable[resource]);
    const used = Math.max(0, total - quantity(available[resource]));
    return { used, total, share: total > 0 ? used / total : 0 };
  };
  return { cpu: share("cpu"), memory: share("memory"), pods: share("pods") };
}

export interface Totals {
  workers: number;
  workersReady: number;
  clusters: number;
  running: number;
  nodes: number;
  cpu: string;
}

export function totals(workers: KubeObject[], managed: KubeObject[], clusters: KubeObject[]): Totals {
  const cpu = clusters.reduce((sum, each) => sum + quantity(each.status?.allocatable?.cpu), 0);
  return {
    workers: workers.length,
    workersReady: workers.filter((each) => phaseOf(each) === "Running").length,
    clusters: managed.length,
    running: managed.filter((each) => phaseOf(each) === "Running").length,
    nodes: managed.reduce((sum, each) => sum + Number(each.status?.nodes ?? 0), 0),
    cpu: cores(cpu),
  };
}
