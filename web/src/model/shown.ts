import type { KubeObject } from "../api/types";

/** An object as its page shows it: without bookkeeping, and without anything that opens a door. */
export function shown(obj: KubeObject): KubeObject {
  const { managedFields: _, ...metadata } = obj.metadata as unknown as Record<string, unknown>;
  const annotations = { ...(metadata.annotations as Record<string, string> | undefined) };
  delete annotations["kubectl.kubernetes.io/last-applied-configuration"];
  if (Object.keys(annotations).length) metadata.annotations = annotations;
  else delete metadata.annotations;
  const made = { ...obj, metadata } as unknown as KubeObject;
  // An inline kubeconfig of a workload Cluster.
  if (typeof made.spec?.kubeconfig === "string" && made.spec.kubeconfig) {
    made.spec = { ...made.spec, kubeconfig: "(not shown)" };
  }
  return ordered(made) as KubeObject;
}

/** Keys by the alphabet, as kubectl prints them. */
function ordered(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(ordered);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, each]) => [key, ordered(each)]));
}
