import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { kindOf, WORKLOADS } from "../api/kinds";
import { condition, type KubeObject, nameOf } from "../api/types";
import { type Part, type Workload, workloadsOf } from "../model/workloads";
import { hrefOf, useDerived, useLive, useTitle } from "../ui/hooks";
import { Badge, Empty, Name, Refusals, Search } from "../ui/parts";
import { type Column, Table } from "../ui/table";

const MOST_CARDS = 60;
const MOST_SEGMENTS = 24;
const MOST_LABELLED = 6;

export function Placements(): JSX.Element {
  useTitle("Placement");
  const live = useLive();
  const [text, setText] = useState("");
  const placements = live.get("placements");
  const workloads = useDerived(live, () =>
    WORKLOADS.flatMap((id) => workloadsOf(id, kindOf(id)!.kind, live.get(id).list(), placements.list())).sort((a, b) =>
      nameOf(a.obj).localeCompare(nameOf(b.obj)),
    ),
  );
  const rules = useDerived(live, () => placements.list());
  const found = workloads.filter((each) => `${nameOf(each.obj)} ${each.placement}`.toLowerCase().includes(text.toLowerCase()));
  return (
    <>
      <header class="head">
        <h1>Placement</h1>
        <Search value={text} label="Workload or Placement" onInput={setText} />
      </header>
      <Refusals of={["placements", ...WORKLOADS].map((id) => [id, live.get(id)])} />
      <div class="scrolled">
        {rules.length > 0 && (
          <section>
            <h2>Placements</h2>
            <Table label="Placements" rows={rules} columns={RULES} keyOf={nameOf} first="name" short />
          </section>
        )}
        <section>
          <h2 class={WORKLOADS.every((id) => live.get(id).access === "forbidden") ? "hidden" : undefined}>Workloads</h2>
          {workloads.length > 0 && found.length === 0 && <Empty title="No match">Change the search.</Empty>}
          {workloads.length === 0 && ["ready", "unserved"].includes(live.get("deployments").access) && (
            <Empty title="There are no workloads on the hub">A Deployment on the hub is divided among its workload Clusters.</Empty>
          )}
          {found.length > 0 && (
            <ul class="cards">
              {found.slice(0, MOST_CARDS).map((each) => (
                <Card key={`${each.kindId}/${nameOf(each.obj)}`} workload={each} />
              ))}
            </ul>
          )}
          {found.length > MOST_CARDS && <p class="soft">The first {MOST_CARDS} of {found.length} are shown. Use the search to find others.</p>}
        </section>
      </div>
    </>
  );
}

const RULES: Column<KubeObject>[] = [
  { id: "name", title: "Name", by: nameOf, show: (each) => <a href={hrefOf(["placements", each.metadata.namespace ?? "", each.metadata.name])}><Name of={each} /></a> },
  { id: "strategy", title: "Replicas", wide: true, show: (each) => `${each.spec?.replicas?.strategy ?? "Divide"} by ${(each.spec?.replicas?.by ?? "Weight").toLowerCase()}` },
  { id: "priority", title: "Priority", width: "7rem", numeric: true, wide: true, by: (each) => each.spec?.priority ?? 0, show: (each) => each.spec?.priority ?? 0 },
  { id: "placed", title: "Objects", width: "7rem", numeric: true, wide: true, by: (each) => each.status?.placed ?? 0, show: (each) => each.status?.placed ?? 0 },
  {
    id: "valid",
    title: "State",
    narrow: "9rem",
    show: (each) => {
      const valid = condition(each, "Valid");
      if (valid?.status === "False") return <Badge tone="bad">{valid.message || valid.reason}</Badge>;
      return condition(each, "Superseded")?.status === "True" ? <Badge tone="waiting">Superseded</Badge> : <Badge tone={valid ? "good" : "unknown"}>{valid ? "Valid" : "Not checked yet"}</Badge>;
    },
  },
];

function Card({ workload }: { workload: Workload }): JSX.Element {
  const { obj, parts, wanted, ready, tone, placement, kindId } = workload;
  const { namespace = "", name } = obj.metadata;
  return (
    <li class="card">
      <div class="card-head">
        <span>
          <a class="title" href={hrefOf([kindId, namespace, name])}><Name of={obj} /></a> <span class="soft">{kindOf(kindId)!.kind}</span>
        </span>
        <span class="soft">
          {placement ? <>by <a href={hrefOf(["placements", namespace, placement])}>{placement}</a></> : "evenly, without a Placement"}
        </span>
        <Badge tone={tone}>{ready} of {wanted} ready</Badge>
      </div>
      <Division parts={parts} />
    </li>
  );
}

/** A share of the width for each cluster; what is not ready is hatched. Many clusters have their words below. */
function Division({ parts }: { parts: Part[] }): JSX.Element {
  const largest = [...parts].sort((a, b) => b.wanted - a.wanted || a.cluster.localeCompare(b.cluster));
  const shown = largest.slice(0, MOST_SEGMENTS);
  const rest = largest.slice(MOST_SEGMENTS);
  const others = rest.reduce((sum, each) => sum + each.wanted, 0);
  if (parts.length === 0) return <p class="soft">It is placed in no workload Cluster.</p>;
  if (parts.length <= MOST_LABELLED) {
    return (
      <ul class="division labelled">
        {shown.map((each) => (
          <li key={each.cluster} style={{ flexGrow: each.wanted }}>
            <Segment part={each} />
            <Words part={each} />
          </li>
        ))}
      </ul>
    );
  }
  return (
    <>
      <div class="division" aria-hidden="true">
        {shown.filter((each) => each.wanted > 0).map((each) => (
          <span key={each.cluster} style={{ flexGrow: each.wanted }} title={`${each.cluster}: ${each.ready} of ${each.wanted}`}><Segment part={each} /></span>
        ))}
        {others > 0 && <span style={{ flexGrow: others }} title={`${rest.length} more workload Clusters`}><span class="segment" /></span>}
      </div>
      <ul class="shares">
        {shown.map((each) => <li key={each.cluster}><Words part={each} /></li>)}
        {rest.length > 0 && <li class="soft">and {others} in {rest.length} more clusters</li>}
      </ul>
    </>
  );
}

function Segment({ part }: { part: Part }): JSX.Element {
  const share = part.wanted > 0 ? Math.min(100, (part.ready / part.wanted) * 100) : 0;
  return <span class="segment" aria-hidden="true"><i style={{ width: `${share}%` }} /></span>;
}

function Words({ part }: { part: Part }): JSX.Element {
  return (
    <span class="words">
      <a href={hrefOf(part.link)}>{part.cluster}</a> <span class="count"><b>{part.ready}</b>/{part.wanted}</span>
      {part.problem && <span class="warn"> {part.problem}</span>}
    </span>
  );
}
