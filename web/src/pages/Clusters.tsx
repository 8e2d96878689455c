import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { type KubeObject, nameOf } from "../api/types";
import { PHASES, phaseOf, problemOf, toneOf } from "../model/phases";
import { ago } from "../model/quantity";
import { hrefOf, useDerived, useLive, useNow, useTitle } from "../ui/hooks";
import { Badge, Empty, Name, Refusals, Search } from "../ui/parts";
import { type Column, Table } from "../ui/table";

export function Clusters(): JSX.Element {
  useTitle("Clusters");
  const live = useLive();
  const now = useNow(10_000);
  const [text, setText] = useState("");
  const [phase, setPhase] = useState("");
  const managed = live.get("managedclusters");
  const all = useDerived(live, () => managed.list());
  const count = useMemo(() => tally(all), [all]);
  const rows = useMemo(() => all.filter((each) => (!phase || phaseOf(each) === phase) && says(each, text)), [all, text, phase]);
  const columns = useMemo(() => columnsAt(now), [now]);
  return (
    <>
      <header class="head">
        <h1>ManagedClusters</h1>
        <div class="filters" role="group" aria-label="Filter by phase">
          <button type="button" class="chip" aria-pressed={phase === ""} onClick={() => setPhase("")}>All {managed.access === "forbidden" ? "" : all.length}</button>
          {PHASES.filter((each) => count.has(each)).map((each) => (
            <button type="button" class="chip" key={each} aria-pressed={phase === each} onClick={() => setPhase(phase === each ? "" : each)}>
              <Badge tone={toneOf(each)}>{each} {count.get(each)}</Badge>
            </button>
          ))}
        </div>
        <Search value={text} label="Name, worker or label" onInput={setText} />
      </header>
      <Refusals of={[["managedclusters", managed]]} />
      {managed.access === "loading" ? (
        <Empty title="Loading ManagedClusters…" />
      ) : rows.length > 0 ? (
        <Table label="ManagedClusters" rows={rows} columns={columns} keyOf={nameOf} first="name" />
      ) : all.length > 0 ? (
        <Empty title="No match">Change the phase or the search.</Empty>
      ) : (
        managed.access === "ready" && <Empty title="There are no ManagedClusters"><code>kubectl apply -f examples/clusters.yaml</code> creates two.</Empty>
      )}
    </>
  );
}

function tally(all: KubeObject[]): Map<string, number> {
  const count = new Map<string, number>();
  for (const each of all) count.set(phaseOf(each), (count.get(phaseOf(each)) ?? 0) + 1);
  return count;
}

function says(obj: KubeObject, text: string): boolean {
  if (!text) return true;
  const labels = Object.entries(obj.metadata.labels ?? {}).map(([key, value]) => `${key}=${value}`);
  return [nameOf(obj), obj.status?.assignedWorker ?? "", ...labels].join(" ").toLowerCase().includes(text.toLowerCase());
}

const columnsAt = (now: number): Column<KubeObject>[] => [
  { id: "name", title: "Name", width: "27%", by: nameOf, show: (each) => <a href={hrefOf(["managedclusters", each.metadata.namespace ?? "", each.metadata.name])} title={nameOf(each)}><Name of={each} /></a> },
  { id: "phase", title: "Phase", width: "9.5rem", narrow: "8.2rem", by: (each) => PHASES.indexOf(phaseOf(each)), show: (each) => <Badge tone={toneOf(phaseOf(each))}>{phaseOf(each)}</Badge> },
  { id: "worker", title: "Worker", wide: true, by: (each) => each.status?.assignedWorker ?? "", show: worker },
  { id: "version", title: "Version", width: "7rem", wide: true, by: (each) => each.status?.version ?? "", show: (each) => each.status?.version ?? each.spec?.version ?? "" },
  { id: "nodes", title: "Nodes", width: "5.5rem", narrow: "4.6rem", numeric: true, by: (each) => each.status?.nodes ?? 0, show: (each) => each.status?.nodes ?? 0 },
  { id: "age", title: "Age", width: "5.5rem", wide: true, numeric: true, by: (each) => each.metadata.creationTimestamp ?? "", show: (each) => ago(each.metadata.creationTimestamp, now) },
  { id: "problem", title: "Problem", wide: true, width: "24%", show: (each) => <span class="soft cut" title={problemOf(each)}>{phaseOf(each) === "Running" ? "" : problemOf(each)}</span> },
];

function worker(each: KubeObject): JSX.Element | string {
  const move = each.status?.move as { to?: string } | undefined;
  return `${each.status?.assignedWorker ?? ""}${move?.to ? ` → ${move.to}` : ""}`;
}
