import type { ComponentChildren, JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { kindOf } from "../api/kinds";
import { type Condition, type KubeObject, nameOf } from "../api/types";
import { phaseOf, toneOf } from "../model/phases";
import { ago } from "../model/quantity";
import { shown } from "../model/shown";
import { dump } from "../model/yaml";
import { useDerived, useKey, useLive, useNow, useTitle } from "../ui/hooks";
import { Badge, Empty, Refusals } from "../ui/parts";
import { happenings } from "./Events";
import { NodesOf } from "./Nodes";

/** The page that lists a kind. */
const LISTS: Record<string, [path: string, title: string]> = {
  managedclusters: ["clusters", "Clusters"], workers: ["", "Fleet"], clusters: ["sync", "Sync"], events: ["events", "Events"], negotiated: ["sync", "Sync"],
};

export function Detail({ kindId, namespace, name }: { kindId: string; namespace: string; name: string }): JSX.Element {
  const kind = kindOf(kindId);
  const [listPath, listTitle] = LISTS[kindId] ?? ["placements", "Placement"];
  useKey("Escape", () => void (location.hash = `#/${listPath}`));
  useTitle(`${kind?.kind ?? "?"} ${name}`);
  const live = useLive();
  const now = useNow();
  const collection = live.get(kindId);
  const obj = collection.get(namespace, name);
  const mine = useDerived(live, () => happenings(live).filter((each) => each.source === "event" && each.link?.join() === [kindId, namespace, name].join()), [kindId, namespace, name]);
  if (!kind) return <Empty title="Page not found" />;
  if (!obj) {
    return (
      <>
        <Head list={listPath} title={listTitle} kind={kind.kind} name={namespace ? `${namespace}/${name}` : name} />
        <Refusals of={[[kindId, collection]]} />
        {collection.access === "loading" ? <Empty title={`Loading the ${kind.kind}…`} /> : collection.access !== "forbidden" && <Empty title={`There is no ${kind.kind} with this name`} />}
      </>
    );
  }
  const phase = obj.status?.phase ? phaseOf(obj) : "";
  const conditions = (obj.status?.conditions ?? []) as Condition[];
  return (
    <>
      <Head list={listPath} title={listTitle} kind={kind.kind} name={nameOf(obj)}>
        {phase && <Badge tone={toneOf(phase)}>{phase}</Badge>}
        <span class="soft">created {ago(obj.metadata.creationTimestamp, now)} ago</span>
      </Head>
      <div class="scrolled">
        <Facts obj={obj} kindId={kindId} />
        {conditions.length > 0 && (
          <section aria-labelledby="conditions">
            <h2 id="conditions">Conditions</h2>
            <div class="panel"><table class="plain">
              <thead><tr><th scope="col">Condition</th><th scope="col">Status</th><th scope="col" class="wide">Reason</th><th scope="col">Message</th><th scope="col">Since</th></tr></thead>
              <tbody>
                {conditions.map((each) => (
                  <tr key={each.type}>
                    <th scope="row">{each.type}</th>
                    <td><Badge tone={toneOf(each.status)}>{each.status}</Badge></td>
                    <td class="wide">{each.reason}</td>
                    <td class="soft">{each.message}</td>
                    <td>{ago(each.lastTransitionTime, now)}</td>
                  </tr>
                ))}
              </tbody>
            </table></div>
          </section>
        )}
        {mine.length > 0 && (
          <section aria-labelledby="events">
            <h2 id="events">Events</h2>
            <ul class="list panel">
              {mine.slice(0, 30).map((each) => (
                <li key={each.key}><Badge tone={each.tone}>{each.reason}</Badge> {each.message} <span class="soft">{ago(each.time, now)} ago</span></li>
              ))}
            </ul>
          </section>
        )}
        {kindId === "managedclusters" && phase === "Running" && <NodesOf inside={`${namespace}/${name}`} />}
        <Yaml obj={obj} />
      </div>
    </>
  );
}

interface HeadProps {
  list: string;
  title: string;
  kind: string;
  name: string;
  children?: ComponentChildren;
}

function Head({ list, title, kind, name, children }: HeadProps): JSX.Element {
  return (
    <header class="head object">
      <nav aria-label="Back"><a href={`#/${list}`} aria-keyshortcuts="Escape">← {title}</a></nav>
      <h1><span class="kind">{kind}</span> {name}</h1>
      {children}
    </header>
  );
}

function Facts({ obj, kindId }: { obj: KubeObject; kindId: string }): JSX.Element | null {
  const { spec = {}, status = {} } = obj;
  const facts: [string, unknown][] = {
    managedclusters: [["Worker", status.assignedWorker], ["Version", status.version ?? spec.version], ["Ready nodes", status.nodes], ["Infrastructure", spec.infrastructure], ["Location", spec.location], ["When the Worker is lost", spec.onWorkerLost]],
    workers: [["Capacity", spec.capacity], ["Free slots", status.availableCapacity], ["Location", spec.location], ["Version", spec.version], ["Infrastructure", spec.infrastructure], ["Cost", spec.cost]],
    clusters: [["CPU", status.allocatable?.cpu], ["Memory", status.allocatable?.memory], ["Free CPU", status.available?.cpu], ["Free memory", status.available?.memory], ["Sync mode", spec.syncMode]],
    placements: [["Priority", spec.priority ?? 0], ["Placed objects", status.placed ?? 0], ["Strategy", spec.replicas?.strategy], ["Divided by", spec.replicas?.by]],
  }[kindId] as [string, unknown][] ?? [["Replicas", spec.replicas], ["Ready", status.readyReplicas ?? status.numberReady ?? status.succeeded]];
  const told = facts.filter(([, value]) => value !== undefined && value !== "");
  if (told.length === 0) return null;
  return (
    <dl class="facts panel">
      {told.map(([name, value]) => (
        <div key={name}><dt>{name}</dt><dd>{String(value)}</dd></div>
      ))}
    </dl>
  );
}

function Yaml({ obj }: { obj: KubeObject }): JSX.Element {
  const text = useMemo(() => dump(shown(obj)), [obj]);
  const [copied, setCopied] = useState(false);
  const copy = (): void => {
    void navigator.clipboard?.writeText(text).then(() => {
      setCopied(true);
      setTimeout(() => setCopied(false), 1500);
    });
  };
  return (
    <section aria-labelledby="yaml" class="yaml">
      <h2 id="yaml">YAML</h2>
      <button type="button" class="quiet" onClick={copy}>{copied ? "Copied" : "Copy"}</button>
      <span class="hidden" role="status">{copied ? "Copied" : ""}</span>
      <pre tabIndex={0} aria-label="YAML"><code>{text.split("\n").map((line, at) => <Line key={at} line={line} />)}</code></pre>
    </section>
  );
}

function Line({ line }: { line: string }): JSX.Element {
  const found = /^(\s*(?:- )*)([^\s:"]+|"[^"]*")(:)(.*)$/.exec(line);
  if (!found) return <>{line + "\n"}</>;
  return <>{found[1]}<b>{found[2]}</b>{found[3]}{found[4] + "\n"}</>;
}
