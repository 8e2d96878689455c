/** What nodes cost an hour, from the hub's metrics: a cluster there is NAMESPACE.NAME. */
export interface Cost {
  pools: Map<string, number>;
  /** Node by node; only of a cluster that is looked into. */
  nodes: Map<string, number>;
  total: number;
  /** Of the last plan: its cost, and what no plan can cost less than. */
  plan?: number;
  bound?: number;
}

const SAMPLE = /^(\w+)\{([^}]*)\}\s+(\S+)/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

export function costsOf(text: string): Map<string, Cost> {
  const found = new Map<string, Cost>();
  for (const line of text.split("\n")) {
    const sample = SAMPLE.exec(line);
    if (!sample) continue;
    const labels: Record<string, string> = {};
    for (const [, key, value] of sample[2]!.matchAll(LABEL)) labels[key!] = value!;
    const amount = Number(sample[3]);
    if (!labels.cluster || !Number.isFinite(amount)) continue;
    let cost = found.get(labels.cluster);
    if (!cost) found.set(labels.cluster, (cost = { pools: new Map(), nodes: new Map(), total: 0 }));
    if (sample[1] === "karpenter_nodepools_cost_total") {
      cost.pools.set(labels.nodepool ?? "", amount);
      cost.total += amount;
    } else if (sample[1] === "shoal_provision_node_cost") cost.nodes.set(labels.node_name ?? "", amount);
    else if (sample[1] === "shoal_provision_plan_cost") cost.plan = amount;
    else if (sample[1] === "shoal_provision_plan_bound" && amount > 0) cost.bound = amount;
  }
  return found;
}

/** How much more the last plan costs than any plan has to: 0.01 is one percent. */
export function gap(cost: Cost | undefined): number | undefined {
  return cost?.plan !== undefined && cost.bound ? cost.plan / cost.bound - 1 : undefined;
}
