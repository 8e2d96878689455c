import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { FleetMap } from "../map/FleetMap";
import { type Home, homesOf, type Site, totals } from "../model/fleet";
import { toneOf } from "../model/phases";
import { hrefOf, useDerived, useLive, useTitle } from "../ui/hooks";
import { Badge, Empty, Refusals, Tile, told } from "../ui/parts";
import { type Column, Table } from "../ui/table";

const LEGEND = ["Running", "Provisioning", "Pending", "Failed", "Unknown"];

export function Fleet({ theme }: { theme: string }): JSX.Element {
  useTitle("Fleet");
  const live = useLive();
  const [asTable, setAsTable] = useState(false);
  const [workers, managed, clusters] = ["workers", "managedclusters", "clusters"].map((id) => live.get(id));
  const homes = useDerived(live, () => homesOf(workers!.list(), managed!.list(), clusters!.list()));
  const sum = useDerived(live, () => totals(workers!.list(), managed!.list(), clusters!.list()));
  const loading = managed!.access === "loading";
  return (
    <>
      <header class="head">
        <h1>Fleet</h1>
        <dl class="tiles" id="map-summary">
          <Tile label="Workers" value={told(workers!, sum.workers)} note={sum.workers ? `${sum.workersReady} ready` : undefined} />
          <Tile label="ManagedClusters" value={told(managed!, sum.clusters)} note={sum.clusters ? `${sum.running} running` : undefined} />
          <Tile label="Ready nodes" value={told(managed!, sum.nodes)} />
          <Tile label="CPU for pods" value={told(clusters!, sum.cpu)} note={clusters!.access === "forbidden" ? undefined : "cores"} />
        </dl>
        <div class="switch" role="group" aria-label="Show as">
          <button type="button" aria-pressed={!asTable} onClick={() => setAsTable(false)}>Map</button>
          <button type="button" aria-pressed={asTable} onClick={() => setAsTable(true)}>Table</button>
        </div>
      </header>
      <Refusals of={[["workers", workers!], ["managedclusters", managed!], ["clusters", clusters!]]} />
      {loading ? (
        <Empty title="Loading the fleet…" />
      ) : homes.length === 0 ? (
        managed!.access === "ready" && <Empty title="There are no ManagedClusters"><code>kubectl apply -f examples/clusters.yaml</code> creates two.</Empty>
      ) : asTable ? (
        <FleetTable homes={homes} />
      ) : (
        <>
          <FleetMap homes={homes} theme={theme} />
          <ul class="legend" aria-label="Legend">
            {LEGEND.map((phase) => (
              <li key={phase}>
                <Badge tone={toneOf(phase)}>{phase}</Badge>
              </li>
            ))}
            <li class="soft hint">Zoom in to see nodes as dots, and the CPU requests of pods as a pale arc.</li>
          </ul>
        </>
      )}
    </>
  );
}

interface Row {
  home: Home;
  site: Site;
}

const COLUMNS: Column<Row>[] = [
  { id: "home", title: "Worker", narrow: "7rem", by: ({ home }) => home.title, show: ({ home }) => (home.link ? <a href={hrefOf(home.link)}>{home.title}</a> : home.title) },
  { id: "name", title: "Cluster", by: ({ site }) => site.title, show: ({ site }) => <a href={hrefOf(site.link)}>{site.title}</a> },
  { id: "phase", title: "Phase", narrow: "8.2rem", by: ({ site }) => site.phase, show: ({ site }) => <Badge tone={site.tone}>{site.phase}</Badge> },
  { id: "nodes", title: "Nodes", width: "7rem", numeric: true, wide: true, by: ({ site }) => site.nodes, show: ({ site }) => site.nodes },
  { id: "used", title: "CPU asked for", width: "10rem", numeric: true, wide: true, by: ({ site }) => site.used ?? -1, show: ({ site }) => (site.used === undefined ? "" : `${Math.round(site.used * 100)} %`) },
];

function FleetTable({ homes }: { homes: Home[] }): JSX.Element {
  const rows = homes.flatMap((home) => home.sites.map((site) => ({ home, site })));
  return <Table label="ManagedClusters and their Workers" rows={rows} columns={COLUMNS} keyOf={({ site }) => site.key} first="home" />;
}
