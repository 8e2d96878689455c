import type { KubeObject } from "../api/types";
import { toneOf, type Tone } from "./phases";

/** What is placed, where its parts are, and which Placement says so. */
export interface Part {
  cluster: string;
  wanted: number;
  ready: number;
  problem: string;
  link: [kind: string, namespace: string, name: string];
}

export interface Workload {
  kindId: string;
  obj: KubeObject;
  placement: string;
  wanted: number;
  ready: number;
  parts: Part[];
  tone: Tone;
}

const ASSIGNED = "workloads.kcp.dev/cluster";
const OWNED_BY = "kcp.dev/owned-by";

interface Selector {
  matchLabels?: Record<string, string>;
  matchExpressions?: { key: string; operator: string; values?: string[] }[];
}

export function matches(selector: Selector | undefined, labels: Record<string, string> = {}): boolean {
  const wanted = Object.entries(selector?.matchLabels ?? {});
  if (wanted.some(([key, value]) => labels[key] !== value)) return false;
  return (selector?.matchExpressions ?? []).every(({ key, operator, values = [] }) => {
    const has = key in labels;
    if (operator === "Exists") return has;
    if (operator === "DoesNotExist") return !has;
    if (operator === "In") return has && values.includes(labels[key]!);
    return operator === "NotIn" && !(has && values.includes(labels[key]!));
  });
}

function selects(placement: KubeObject, obj: KubeObject, kind: string, apiVersion: string): boolean {
  const { namespace, name, labels } = obj.metadata;
  if (placement.metadata.namespace !== namespace || placement.metadata.deletionTimestamp) return false;
  const rules = (placement.spec?.selects ?? []) as { apiVersion?: string; kind?: string; name?: string; labelSelector?: Selector }[];
  return rules.some(
    (rule) =>
      rule.kind === kind &&
      (!rule.apiVersion || rule.apiVersion === apiVersion) &&
      (!rule.name || rule.name === name) &&
      matches(rule.labelSelector, labels),
  );
}

/** By the hub's rule: the highest priority, then the oldest, then the first by name. */
export function placementOf(placements: KubeObject[], obj: KubeObject, kind: string, apiVersion: string): string {
  const found = placements.filter((each) => selects(each, obj, kind, apiVersion));
  found.sort(
    (a, b) =>
      (b.spec?.priority ?? 0) - (a.spec?.priority ?? 0) ||
      (a.metadata.creationTimestamp ?? "").localeCompare(b.metadata.creationTimestamp ?? "") ||
      a.metadata.name.localeCompare(b.metadata.name),
  );
  return found[0]?.metadata.name ?? "";
}

export function counts(kind: string, obj: KubeObject): { wanted: number; ready: number } {
  const { spec = {}, status = {} } = obj;
  if (kind === "DaemonSet") return { wanted: status.desiredNumberScheduled ?? 0, ready: status.numberReady ?? 0 };
  if (kind === "Job") return { wanted: spec.completions ?? spec.parallelism ?? 1, ready: status.succeeded ?? 0 };
  return { wanted: spec.replicas ?? 1, ready: status.readyReplicas ?? 0 };
}

export function workloadsOf(kindId: string, kind: string, objects: KubeObject[], placements: KubeObject[]): Workload[] {
  const parts = new Map<string, Part[]>();
  for (const leaf of objects) {
    const cluster = leaf.metadata.labels?.[ASSIGNED];
    const root = leaf.metadata.labels?.[OWNED_BY];
    if (!cluster || !root) continue;
    const { namespace = "", name, annotations = {} } = leaf.metadata;
    const homeless = annotations["workloads.kcp.dev/unschedulable"];
    const problem = annotations["workloads.kcp.dev/problem"] ?? (homeless ? `${homeless} without a node` : "");
    const part: Part = { cluster, ...counts(kind, leaf), problem, link: [kindId, namespace, name] };
    const key = `${namespace}/${root}`;
    if (!parts.get(key)?.push(part)) parts.set(key, [part]);
  }
  return objects
    .filter((each) => !(ASSIGNED in (each.metadata.labels ?? {})))
    .map((obj) => {
      const found = parts.get(`${obj.metadata.namespace ?? ""}/${obj.metadata.name}`) ?? [];
      found.sort((a, b) => a.cluster.localeCompare(b.cluster));
      const { wanted, ready } = counts(kind, obj);
      const tone: Tone = ready >= wanted ? "good" : found.some((each) => each.problem) ? "bad" : "busy";
      const placement = placementOf(placements, obj, kind, obj.apiVersion ?? "");
      return { kindId, obj, placement, wanted, ready, parts: found, tone: found.length || wanted === 0 ? tone : toneOf("Pending") };
    });
}
