import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { condition, type Condition, type KubeObject } from "../api/types";
import { readyOf, toneOf } from "../model/phases";
import { hrefOf, useDerived, useLive, useTitle } from "../ui/hooks";
import { Badge, Empty, Refusals, Search, Tile, told } from "../ui/parts";
import { type Column, Table } from "../ui/table";

/** Conditions that are there only when something is wrong. */
const WARNINGS = ["NotSynced", "HubChanged", "Orphans", "DeletionsHeld", "NotShown"];

export function Sync(): JSX.Element {
  useTitle("Sync");
  const live = useLive();
  const [text, setText] = useState("");
  const [clusters, negotiated] = [live.get("clusters"), live.get("negotiated")];
  const rows = useDerived(live, () => clusters.list());
  const apis = useDerived(live, () => negotiated.list());
  const found = useMemo(() => rows.filter((each) => each.metadata.name.includes(text)), [rows, text]);
  const ready = rows.filter((each) => readyOf(each) === "True").length;
  const published = apis.filter((each) => condition(each, "Published")?.status === "True").length;
  return (
    <>
      <header class="head">
        <h1>Sync</h1>
        <dl class="tiles">
          <Tile label="Workload Clusters" value={told(clusters, rows.length)} note={rows.length ? `${ready} ready` : undefined} />
          <Tile label="With warnings" value={told(clusters, rows.filter((each) => warnings(each).length > 0).length)} />
          <Tile label="Negotiated APIs" value={told(negotiated, apis.length)} note={apis.length ? `${published} published` : undefined} />
        </dl>
        <Search value={text} label="Cluster" onInput={setText} />
      </header>
      <Refusals of={[["clusters", clusters], ["negotiated", negotiated]]} />
      {clusters.access === "loading" ? (
        <Empty title="Loading workload Clusters…" />
      ) : found.length > 0 ? (
        <Table label="Workload Clusters and their sync status" rows={found} columns={COLUMNS} keyOf={(each) => each.metadata.name} first="ready" />
      ) : rows.length > 0 ? (
        <Empty title="No match">Change the search.</Empty>
      ) : (
        clusters.access === "ready" && <Empty title="There are no workload Clusters">A ManagedCluster is registered when it is Running. Register other clusters with <code>shoal join-cluster</code>.</Empty>
      )}
    </>
  );
}

const warnings = (cluster: KubeObject): Condition[] =>
  WARNINGS.map((type) => condition(cluster, type)).filter((each): each is Condition => each?.status === "True");

function State({ of, type }: { of: KubeObject; type: string }): JSX.Element {
  const found = condition(of, type);
  if (!found) return <Badge tone="unknown">Unknown</Badge>;
  return <Badge tone={toneOf(found.status)}>{found.status === "True" ? "Yes" : found.reason || found.status}</Badge>;
}

const COLUMNS: Column<KubeObject>[] = [
  { id: "name", title: "Cluster", width: "24%", by: (each) => each.metadata.name, show: (each) => <a href={hrefOf(["clusters", "", each.metadata.name])}>{each.metadata.name}</a> },
  { id: "ready", title: "Ready", narrow: "6.5rem", by: (each) => readyOf(each), show: (each) => <State of={each} type="Ready" /> },
  { id: "heartbeat", title: "Heartbeat", wide: true, by: (each) => condition(each, "HeartbeatHealthy")?.status ?? "", show: (each) => <State of={each} type="HeartbeatHealthy" /> },
  { id: "importer", title: "APIs imported", wide: true, by: (each) => condition(each, "APIImporterReady")?.status ?? "", show: (each) => <State of={each} type="APIImporterReady" /> },
  { id: "syncer", title: "Syncer", narrow: "6.5rem", by: (each) => condition(each, "SyncerReady")?.status ?? "", show: (each) => <State of={each} type="SyncerReady" /> },
  { id: "kinds", title: "Kinds", width: "5.5rem", wide: true, numeric: true, by: (each) => each.status?.syncedResources?.length ?? 0, show: (each) => <span title={(each.status?.syncedResources ?? []).join("\n")}>{each.status?.syncedResources?.length ?? 0}</span> },
  {
    id: "warnings",
    title: "Warnings",
    wide: true,
    width: "24%",
    by: (each) => -warnings(each).length,
    show: (each) => {
      const found = warnings(each);
      const said = found.map((one) => `${one.type}: ${one.message || one.reason}`).join("; ") || (readyOf(each) === "True" ? "" : condition(each, "Ready")?.message ?? "");
      return <span class={found.length ? "warn cut" : "soft cut"} title={said}>{said}</span>;
    },
  },
];
