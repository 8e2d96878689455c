import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { kindOf } from "../api/kinds";
import type { Live } from "../api/live";
import { density, fromConditions, fromEvent, type Happening, sorted } from "../model/timeline";
import { ago } from "../model/quantity";
import { hrefOf, useDerived, useLive, useNow, useTitle } from "../ui/hooks";
import { Badge, Empty, Refusals, Search } from "../ui/parts";
import { type Column, Table } from "../ui/table";

const FOLLOWED = ["managedclusters", "workers", "clusters", "placements"];
const SPANS: [string, number][] = [["10 min", 600_000], ["1 h", 3_600_000], ["1 day", 86_400_000]];
const BUCKETS = 60;

export function happenings(live: Live): Happening[] {
  const events = live.get("events").list().map(fromEvent);
  const turns = FOLLOWED.flatMap((id) => live.get(id).list().flatMap((obj) => fromConditions(id, kindOf(id)!.kind, obj)));
  return sorted([...events, ...turns]);
}

export function Events(): JSX.Element {
  useTitle("Events");
  const live = useLive();
  const now = useNow();
  const [text, setText] = useState("");
  const [only, setOnly] = useState<"" | "bad" | "event">("");
  const [span, setSpan] = useState(SPANS[1]![1]);
  const all = useDerived(live, () => happenings(live));
  const rows = useMemo(() => {
    const wanted = text.toLowerCase();
    return all.filter(
      (each) =>
        (only === "" || (only === "bad" ? each.tone === "bad" || each.tone === "unknown" : each.source === "event")) &&
        (!wanted || `${each.about} ${each.reason} ${each.message}`.toLowerCase().includes(wanted)),
    );
  }, [all, text, only]);
  const columns = useMemo(() => columnsAt(now), [now]);
  return (
    <>
      <header class="head">
        <h1>Events</h1>
        <div class="filters" role="group" aria-label="Which">
          {([["", "All"], ["bad", "Warnings"], ["event", "Events only"]] as const).map(([id, title]) => (
            <button type="button" class="chip" key={id} aria-pressed={only === id} onClick={() => setOnly(id)}>{title}</button>
          ))}
        </div>
        <Search value={text} label="Object, reason or words" onInput={setText} />
      </header>
      <Refusals of={["events", ...FOLLOWED].map((id) => [id, live.get(id)])} />
      <Timeline rows={rows} now={now} span={span} onSpan={setSpan} />
      {rows.length === 0 ? (
        <Empty title="Nothing happened">Events are kept for an hour; conditions keep their last turn.</Empty>
      ) : (
        <Table label="Events and conditions, newest first" rows={rows} columns={columns} keyOf={(each) => each.key} first="time" descending />
      )}
    </>
  );
}

const columnsAt = (now: number): Column<Happening>[] => [
  { id: "time", title: "Ago", width: "6rem", by: (each) => each.time, show: (each) => <time dateTime={each.time} title={each.time}>{ago(each.time, now)}</time> },
  { id: "reason", title: "What", width: "17rem", by: (each) => each.reason, show: (each) => <Badge tone={each.tone}>{each.reason}{each.count > 1 ? ` ×${each.count}` : ""}</Badge> },
  { id: "about", title: "About", by: (each) => each.about, show: (each) => (each.link ? <a href={hrefOf(each.link)}>{each.about}</a> : each.about) },
  { id: "message", title: "Words", show: (each) => <span class="cut" title={each.message}>{each.message}</span> },
];

/** When, and how much: good news upwards, bad news downwards. The table below says the same. */
function Timeline({ rows, now, span, onSpan }: { rows: Happening[]; now: number; span: number; onSpan: (span: number) => void }): JSX.Element {
  const buckets = density(rows, now, span, BUCKETS);
  const most = Math.max(1, ...buckets.map((each) => Math.max(each.good, each.bad)));
  const good = buckets.reduce((sum, each) => sum + each.good, 0);
  const bad = buckets.reduce((sum, each) => sum + each.bad, 0);
  return (
    <figure class="timeline">
      <svg viewBox={`0 0 ${BUCKETS * 10} 60`} preserveAspectRatio="none" role="img" aria-label={`${good} good and ${bad} bad happenings in the time that is shown`}>
        <line x1="0" x2={BUCKETS * 10} y1="36" y2="36" class="axis" />
        {buckets.map((each, at) => (
          <g key={at}>
            {each.good > 0 && <rect class="good" x={at * 10 + 1.5} width="7" y={35 - (each.good / most) * 33} height={(each.good / most) * 33} />}
            {each.bad > 0 && <rect class="bad" x={at * 10 + 1.5} width="7" y="37" height={Math.max(3, (each.bad / most) * 22)} />}
          </g>
        ))}
      </svg>
      <figcaption>
        <span class="soft">{SPANS.find(([, each]) => each === span)![0]} ago</span>
        <span class="switch" role="group" aria-label="Time shown">
          {SPANS.map(([title, each]) => (
            <button type="button" key={each} aria-pressed={span === each} onClick={() => onSpan(each)}>{title}</button>
          ))}
        </span>
        <span class="soft">now</span>
      </figcaption>
    </figure>
  );
}
