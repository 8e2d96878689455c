import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { COSTS, insideId } from "../api/kinds";
import type { Live } from "../api/live";
import type { KubeObject } from "../api/types";
import { type Cost, costsOf, gap } from "../model/costs";
import { usage } from "../model/fleet";
import { type NodeRow, nodeRows } from "../model/nodes";
import { ago, bytes, cores, money } from "../model/quantity";
import { hrefOf, useDerived, useLive, useNow, useTitle } from "../ui/hooks";
import { Badge, Bar, Empty, Refusals, Search, Tile, told } from "../ui/parts";
import { type Column, Table } from "../ui/table";

interface Row {
  name: string;
  /** NAMESPACE/NAME of the ManagedCluster; empty for clusters of somebody else. */
  inside: string;
  nodes: number | undefined;
  cluster: KubeObject;
  cost: Cost | undefined;
}

export function Nodes({ inside }: { inside: string }): JSX.Element {
  useTitle(inside ? `Nodes of ${inside}` : "Nodes");
  const live = useLive();
  const [text, setText] = useState("");
  const clusters = live.get("clusters");
  const costs = useDerived(live, () => costsOf(live.get(COSTS).text));
  const rows = useDerived(live, () => rowsOf(live, costs));
  const found = useMemo(() => rows.filter((each) => each.name.includes(text)), [rows, text]);
  const sum = useMemo(() => [...costs.values()].reduce((total, each) => total + each.total, 0), [costs]);
  const known = [...costs.values()].filter((each) => each.bound !== undefined && each.plan !== undefined);
  const plan = known.reduce((total, each) => total + each.plan!, 0);
  const bound = known.reduce((total, each) => total + each.bound!, 0);
  const readable = live.get(COSTS).access === "ready";
  return (
    <>
      <header class="head">
        <h1>Nodes</h1>
        <dl class="tiles">
          <Tile label="Clusters with nodes" value={told(clusters, rows.length)} />
          <Tile label="Cost of bought nodes" value={readable ? money(sum) : "–"} note={readable ? "per hour" : undefined} />
          <Tile label="Cost of last plans" value={known.length ? money(plan) : "–"} note={known.length ? `per hour, lower bound ${money(bound)}` : undefined} />
          <Tile label="Above the lower bound" value={bound > 0 ? percent(plan / bound - 1) : "–"} />
        </dl>
        <Search value={text} label="Cluster" onInput={setText} />
      </header>
      <Refusals of={[["clusters", clusters], [COSTS, live.get(COSTS)]]} />
      {clusters.access === "loading" ? (
        <Empty title="Loading workload Clusters…" />
      ) : found.length === 0 ? (
        clusters.access === "ready" && <Empty title={rows.length ? "No match" : "There are no workload Clusters"}>A ManagedCluster is registered when it is Running.</Empty>
      ) : (
        <Table label="Workload Clusters and their utilization" rows={found} columns={CLUSTERS} keyOf={(each) => each.name} first="name" chosen={rows.find((each) => each.inside === inside)?.name} short={inside !== ""} />
      )}
      {inside && <NodesOf inside={inside} />}
    </>
  );
}

function rowsOf(live: Live, costs: Map<string, Cost>): Row[] {
  return live.get("clusters").list().map((cluster) => {
    const owner = cluster.metadata.labels?.["shoal.dev/managedcluster"] ?? "";
    const [namespace, name] = owner.split(/\.(.*)/s);
    const managed = owner ? live.get("managedclusters").get(namespace!, name!) : undefined;
    return {
      name: cluster.metadata.name,
      inside: owner ? `${namespace}/${name}` : "",
      nodes: managed?.status?.nodes as number | undefined,
      cluster,
      cost: costs.get(owner),
    };
  });
}

const CLUSTERS: Column<Row>[] = [
  { id: "name", title: "Cluster", width: "23%", by: (row) => row.name, show: (row) => <a href={hrefOf(["clusters", "", row.name])} title={row.name}>{row.name}</a> },
  { id: "nodes", title: "Nodes", width: "6.5rem", narrow: "5.2rem", by: (row) => row.nodes ?? 0, show: (row) => (row.inside ? <a href={`#/nodes/${row.inside}`}>{row.nodes ?? "?"} {row.nodes === 1 ? "node" : "nodes"}</a> : "") },
  { id: "cpu", title: "CPU", narrow: "8rem", by: (row) => usage(row.cluster).cpu?.share ?? -1, show: (row) => { const { cpu } = usage(row.cluster); return <Bar share={cpu} label="cpu" text={cpu ? `of ${cores(cpu.total)}` : ""} />; } },
  { id: "memory", title: "Memory", wide: true, by: (row) => usage(row.cluster).memory?.share ?? -1, show: (row) => { const { memory } = usage(row.cluster); return <Bar share={memory} label="memory" text={memory ? `of ${bytes(memory.total)}` : ""} />; } },
  { id: "cost", title: "Cost per hour", width: "8rem", wide: true, numeric: true, by: (row) => row.cost?.total ?? -1, show: (row) => (row.cost ? money(row.cost.total) : "") },
  { id: "gap", title: "Last plan and its lower bound", width: "22rem", wide: true, by: (row) => gap(row.cost) ?? -1, show: (row) => <Gap cost={row.cost} /> },
];

const percent = (share: number): string => `${(share * 100).toFixed(1)} %`;

/** What the last plan costs: full is what no plan can do without, hatched what it costs beyond that. */
function Gap({ cost }: { cost: Cost | undefined }): JSX.Element | null {
  const over = gap(cost);
  if (over === undefined) return null;
  const { plan, bound } = cost as { plan: number; bound: number };
  return (
    <span class="bar gap">
      <span class="segment" aria-hidden="true"><i style={{ width: `${Math.min(100, (bound / plan) * 100)}%` }} /></span>
      <span class="number">+{percent(over)}</span>
      <span class="soft">{money(plan)}, lower bound {money(bound)}</span>
    </span>
  );
}

/** The nodes of one hosted cluster, live. They are seen by users of the hub whose role in it allows that. */
export function NodesOf({ inside }: { inside: string }): JSX.Element {
  const live = useLive();
  const now = useNow(10_000);
  useEffect(() => {
    live.look([inside]);
    return () => live.look([]);
  }, [live, inside]);
  const [nodes, pods, costs] = (["nodes", "pods", "costs"] as const).map((what) => live.get(insideId(inside, what)));
  const rows = useDerived(live, () => nodeRows(nodes!.list(), pods!.list(), [...costsOf(costs!.text).values()][0]), [inside]);
  const columns = useMemo(() => nodeColumns(now), [now]);
  return (
    <div class="inside">
      <h2>Nodes of {inside}</h2>
      <Refusals of={(["nodes", "pods"] as const).map((what) => [insideId(inside, what), live.get(insideId(inside, what))])} />
      {nodes!.access === "loading" ? (
        <Empty title="Loading nodes…" />
      ) : rows.length === 0 ? (
        nodes!.access === "ready" ? <Empty title="There are no nodes" /> : nodes!.access === "unserved" && <p class="soft">The nodes cannot be read: {nodes!.message}</p>
      ) : (
        <Table label={`Nodes of ${inside}`} rows={rows} columns={columns} keyOf={(each) => each.name} first="name" short />
      )}
    </div>
  );
}

const nodeColumns = (now: number): Column<NodeRow>[] => [
  { id: "name", title: "Node", width: "17%", by: (row) => row.name, show: (row) => row.name },
  { id: "state", title: "State", width: "8rem", wide: true, by: (row) => row.state, show: (row) => <Badge tone={row.tone}>{row.state}</Badge> },
  { id: "type", title: "Type", width: "20%", wide: true, by: (row) => row.type, show: (row) => <>{row.type} <span class="soft">{[row.zone, row.capacityType].filter(Boolean).join(", ")}</span></> },
  { id: "cpu", title: "CPU", narrow: "8rem", by: (row) => row.cpu.share, show: (row) => <Bar share={row.cpu} label="cpu" text={`${cores(row.cpu.used)} of ${cores(row.cpu.total)}`} /> },
  { id: "memory", title: "Memory", wide: true, by: (row) => row.memory.share, show: (row) => <Bar share={row.memory} label="memory" text={`of ${bytes(row.memory.total)}`} /> },
  { id: "pods", title: "Pods", width: "4.5rem", wide: true, numeric: true, by: (row) => row.pods.used, show: (row) => row.pods.used },
  { id: "price", title: "Cost per hour", width: "7.5rem", narrow: "7rem", numeric: true, by: (row) => row.price ?? -1, show: (row) => row.price === undefined ? <span class="soft">{row.pool ? "unknown" : "not bought"}</span> : money(row.price) },
  { id: "age", title: "Age", width: "5.5rem", wide: true, numeric: true, by: (row) => row.created ?? "", show: (row) => ago(row.created, now) },
];
