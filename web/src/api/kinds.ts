/** The kinds of the hub that are looked at, by the id their watch has in the stream. */
export interface Kind {
  id: string;
  path: string;
  kind: string;
  /** In sentences: "You may not list …". */
  plural: string;
}

const fleet = "/apis/infrastructure.cluster.x-k8s.io/v1alpha1";

const kinds = [
  { id: "managedclusters", path: `${fleet}/managedclusters`, kind: "ManagedCluster", plural: "ManagedClusters" },
  { id: "workers", path: `${fleet}/workers`, kind: "Worker", plural: "Workers" },
  { id: "clusters", path: "/apis/workload.kcp.dev/v1alpha1/clusters", kind: "Cluster", plural: "workload Clusters" },
  { id: "placements", path: "/apis/placement.shoal.dev/v1alpha1/placements", kind: "Placement", plural: "Placements" },
  { id: "deployments", path: "/apis/apps/v1/deployments", kind: "Deployment", plural: "Deployments" },
  { id: "statefulsets", path: "/apis/apps/v1/statefulsets", kind: "StatefulSet", plural: "StatefulSets" },
  { id: "daemonsets", path: "/apis/apps/v1/daemonsets", kind: "DaemonSet", plural: "DaemonSets" },
  { id: "jobs", path: "/apis/batch/v1/jobs", kind: "Job", plural: "Jobs" },
  { id: "events", path: "/api/v1/events", kind: "Event", plural: "Events" },
  { id: "negotiated", path: "/apis/apiresource.kcp.dev/v1alpha1/negotiatedapiresources", kind: "NegotiatedAPIResource", plural: "NegotiatedAPIResources" },
] as const satisfies readonly Kind[];

export const KINDS: readonly Kind[] = kinds;
export type KindId = (typeof kinds)[number]["id"];

export const WORKLOADS: KindId[] = ["deployments", "statefulsets", "daemonsets", "jobs"];
export const COSTS = "costs";

/** What is looked at inside one hosted cluster. */
export const INSIDE = {
  nodes: "/api/v1/nodes",
  pods: "/api/v1/pods",
  nodeclaims: "/apis/karpenter.sh/v1/nodeclaims",
} as const;

export const insideId = (cluster: string, what: keyof typeof INSIDE | "costs"): string => `${cluster}:${what}`;

export const kindOf = (id: string): Kind | undefined => KINDS.find((each) => each.id === id);

/** The right that shows something, as a role names it. */
export function rightFor(id: string): string {
  if (id === COSTS) return "get /metrics";
  if (id.includes(":")) return `create managedclusters/token, and a role in spec.access of ${id.split(":")[0]}`;
  const parts = kindOf(id)?.path.split("/") ?? [];
  const resource = parts.at(-1) ?? id;
  return `list, watch ${parts[1] === "apis" ? `${resource}.${parts[2]}` : resource}`;
}
