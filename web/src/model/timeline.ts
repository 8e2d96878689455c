import type { Condition, KubeObject } from "../api/types";
import { phaseOf, type Tone, toneOf } from "./phases";

/** What happened, newest first: Events, and the last turn of every condition of the fleet's own kinds. */
export interface Happening {
  key: string;
  time: string;
  tone: Tone;
  reason: string;
  message: string;
  about: string;
  count: number;
  source: "event" | "condition";
  link?: [kind: string, namespace: string, name: string];
}

const PLURALS: Record<string, string> = {
  ManagedCluster: "managedclusters", Worker: "workers", Cluster: "clusters", Placement: "placements",
  Deployment: "deployments", StatefulSet: "statefulsets", DaemonSet: "daemonsets", Job: "jobs",
};

/** Conditions for which True is the bad news. */
const REVERSED = new Set(["Superseded", "Deleting", "HubChanged", "Orphans", "NotSynced", "NotShown", "DeletionsHeld", "Moving"]);

export function fromEvent(event: KubeObject): Happening {
  const about = (event.involvedObject ?? {}) as { kind?: string; namespace?: string; name?: string; apiVersion?: string };
  const time = String(
    event.series?.lastObservedTime ?? event.lastTimestamp ?? event.eventTime ?? event.metadata.creationTimestamp ?? "",
  );
  const ours = about.kind !== "Cluster" || (about.apiVersion ?? "").startsWith("workload.kcp.dev");
  const plural = ours ? PLURALS[about.kind ?? ""] : undefined;
  return {
    key: `event/${event.metadata.namespace}/${event.metadata.name}`,
    time,
    tone: event.type === "Warning" ? "bad" : "good",
    reason: String(event.reason ?? ""),
    message: String(event.message ?? event.note ?? ""),
    about: `${about.kind ?? ""} ${about.namespace ? `${about.namespace}/` : ""}${about.name ?? ""}`,
    count: Number(event.series?.count ?? event.count ?? 1),
    source: "event",
    link: plural ? [plural, about.namespace ?? "", about.name ?? ""] : undefined,
  };
}

export function fromConditions(kindId: string, kind: string, obj: KubeObject): Happening[] {
  const { namespace = "", name } = obj.metadata;
  // What is being made is not ready, and that is no bad news.
  const going = toneOf(phaseOf(obj)) === "busy";
  return ((obj.status?.conditions ?? []) as Condition[])
    .filter((each) => each.lastTransitionTime)
    .map((each) => {
      const well = (each.status === "True") !== REVERSED.has(each.type);
      return {
        key: `condition/${kindId}/${namespace}/${name}/${each.type}`,
        time: each.lastTransitionTime!,
        tone: each.status === "Unknown" ? "unknown" : well ? "good" : going ? "busy" : "bad",
        reason: `${each.type} ${each.status}`,
        message: each.message || each.reason || "",
        about: `${kind} ${namespace ? `${namespace}/` : ""}${name}`,
        count: 1,
        source: "condition",
        link: [kindId, namespace, name],
      };
    });
}

export function sorted(happenings: Happening[]): Happening[] {
  return happenings.sort((a, b) => (a.time < b.time ? 1 : a.time > b.time ? -1 : a.key < b.key ? -1 : 1));
}

export interface Bucket {
  from: number;
  good: number;
  bad: number;
}

/** How many in each of `count` equal spans up to `now`. */
export function density(happenings: Happening[], now: number, span: number, count: number): Bucket[] {
  const width = span / count;
  const buckets = Array.from({ length: count }, (_, at) => ({ from: now - span + at * width, good: 0, bad: 0 }));
  for (const each of happenings) {
    const at = Math.floor((Date.parse(each.time) - (now - span)) / width);
    const bucket = buckets[at === count ? count - 1 : at];
    if (bucket) bucket[each.tone === "bad" || each.tone === "unknown" ? "bad" : "good"] += 1;
  }
  return buckets;
}
