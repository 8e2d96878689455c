import { condition, type KubeObject } from "../api/types";
import type { Cost } from "./costs";
import type { Share } from "./fleet";
import type { Tone } from "./phases";
import { quantity } from "./quantity";

/** The nodes of one hosted cluster, with what pods ask of them. */
export interface NodeRow {
  name: string;
  state: string;
  tone: Tone;
  type: string;
  zone: string;
  pool: string;
  capacityType: string;
  cpu: Share;
  memory: Share;
  pods: Share;
  /** An hour; absent where it was not bought, or its price is not known. */
  price?: number;
  created?: string;
  obj: KubeObject;
}

const POOL = "karpenter.sh/nodepool";
const TYPE = "node.kubernetes.io/instance-type";

interface Containers {
  containers?: { resources?: { requests?: Record<string, string> } }[];
  initContainers?: { restartPolicy?: string; resources?: { requests?: Record<string, string> } }[];
  overhead?: Record<string, string>;
}

/** By the rule of the scheduler: containers and sidecars together, or the largest init container. */
export function requests(spec: Containers | undefined, resource: string): number {
  const of = (container: { resources?: { requests?: Record<string, string> } }): number =>
    quantity(container.resources?.requests?.[resource]);
  let sidecars = 0;
  let starting = 0;
  for (const each of spec?.initContainers ?? []) {
    if (each.restartPolicy === "Always") sidecars += of(each);
    starting = Math.max(starting, sidecars + (each.restartPolicy === "Always" ? 0 : of(each)));
  }
  const running = (spec?.containers ?? []).reduce((sum, each) => sum + of(each), sidecars);
  return Math.max(running, starting) + quantity(spec?.overhead?.[resource]);
}

export function nodeRows(nodes: KubeObject[], pods: KubeObject[], cost: Cost | undefined): NodeRow[] {
  const load = new Map<string, { cpu: number; memory: number; pods: number }>();
  for (const pod of pods) {
    const node = pod.spec?.nodeName as string | undefined;
    if (!node || ["Succeeded", "Failed"].includes(pod.status?.phase)) continue;
    const sum = load.get(node) ?? { cpu: 0, memory: 0, pods: 0 };
    sum.cpu += requests(pod.spec, "cpu");
    sum.memory += requests(pod.spec, "memory");
    sum.pods += 1;
    load.set(node, sum);
  }
  return nodes
    .map((node) => {
      const labels = node.metadata.labels ?? {};
      const has = (node.status?.allocatable ?? {}) as Record<string, string>;
      const used = load.get(node.metadata.name) ?? { cpu: 0, memory: 0, pods: 0 };
      const share = (resource: "cpu" | "memory" | "pods"): Share => {
        const total = quantity(has[resource]);
        return { used: used[resource], total, share: total > 0 ? used[resource] / total : 0 };
      };
      const [state, tone] = stateOf(node);
      return {
        name: node.metadata.name,
        state,
        tone,
        type: labels[TYPE] ?? "",
        zone: labels["topology.kubernetes.io/zone"] ?? "",
        pool: labels[POOL] ?? "",
        capacityType: labels["karpenter.sh/capacity-type"] ?? "",
        cpu: share("cpu"),
        memory: share("memory"),
        pods: share("pods"),
        price: cost?.nodes.get(node.metadata.name),
        created: node.metadata.creationTimestamp,
        obj: node,
      };
    })
    .sort((a, b) => a.name.localeCompare(b.name));
}

function stateOf(node: KubeObject): [string, Tone] {
  if (node.metadata.deletionTimestamp) return ["Terminating", "busy"];
  const ready = condition(node, "Ready")?.status ?? "Unknown";
  if (ready !== "True") return ready === "False" ? ["Not ready", "bad"] : ["Unknown", "unknown"];
  return node.spec?.unschedulable ? ["Ready, cordoned", "waiting"] : ["Ready", "good"];
}
