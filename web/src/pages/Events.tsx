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
const SPANS: [string, number][] = [["2 min", 120_000], ["10 min", 600_000], ["1 h", 3_600_000], ["1 day", 86_400_000]];
const BUCKETS = 60;
const TICKS = [0, 0.25, 0.5, 0.75, 1];
const AXIS = 66;

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
  const [span, setSpan] = useState(SPANS[2]![1]);
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
        <div class="filters" role="group" aria-label="Filter">
          {([["", "All"], ["bad", "Warnings"], ["event", "Events only"]] as const).map(([id, title]) => (
            <button type="button" class="chip" key={id} aria-pressed={only === id} onClick={() => setOnly(id)}>{title}</button>
          ))}
        </div>
        <Search value={text} label="Object, reason or message" onInput={setText} />
      </header>
      <Refusals of={["events", ...FOLLOWED].map((id) => [id, live.get(id)])} />
      {all.length > 0 && <Timeline rows={rows} now={now} span={span} onSpan={setSpan} />}
      {rows.length === 0 ? (
        live.get("events").access === "ready" && <Empty title="There are no Events">Events are kept for one hour. Conditions keep their last transition.</Empty>
      ) : (
        <Table label="Events and conditions, newest first" rows={rows} columns={columns} keyOf={(each) => each.key} first="time" descending />
      )}
    </>
  );
}

const columnsAt = (now: number): Column<Happening>[] => [
  { id: "time", title: "Age", width: "6rem", narrow: "4.6rem", by: (each) => each.time, show: (each) => <time dateTime={each.time} title={each.time}>{ago(each.time, now)}</time> },
  { id: "reason", title: "Reason", width: "16rem", narrow: "11rem", by: (each) => each.reason, show: (each) => <Badge tone={each.tone}>{each.reason}{each.count > 1 ? ` ×${each.count}` : ""}</Badge> },
  { id: "about", title: "Object", by: (each) => each.about, show: (each) => (each.link ? <a href={hrefOf(each.link)}>{each.about}</a> : each.about) },
  { id: "message", title: "Message", wide: true, width: "42%", show: (each) => <span class="cut" title={each.message}>{each.message}</span> },
];

/** Events over time: normal ones upwards, warnings downwards. The table below has the same data. */
function Timeline({ rows, now, span, onSpan }: { rows: Happening[]; now: number; span: number; onSpan: (span: number) => void }): JSX.Element {
  const buckets = density(rows, now, span, BUCKETS);
  const most = Math.max(1, ...buckets.map((each) => Math.max(each.good, each.bad)));
  const good = buckets.reduce((sum, each) => sum + each.good, 0);
  const bad = buckets.reduce((sum, each) => sum + each.bad, 0);
  return (
    <figure class="timeline">
      <figcaption>
        <Badge tone="good">{good} normal</Badge>
        <Badge tone="bad">{bad} warnings</Badge>
        <span class="switch" role="group" aria-label="Time range">
          {SPANS.map(([title, each]) => (
            <button type="button" key={each} aria-pressed={span === each} onClick={() => onSpan(each)}>{title}</button>
          ))}
        </span>
      </figcaption>
      <svg viewBox={`0 0 ${BUCKETS * 10} 100`} preserveAspectRatio="none" role="img" aria-label={`${good} normal events and ${bad} warnings in the time range`}>
        {TICKS.map((share) => <line key={share} x1={share * BUCKETS * 10} x2={share * BUCKETS * 10} y1="0" y2="100" class="tick" />)}
        <line x1="0" x2={BUCKETS * 10} y1={AXIS} y2={AXIS} class="axis" />
        {buckets.map((each, at) => (
          <g key={at}>
            {each.good > 0 && <rect class="good" x={at * 10 + 1} width="8" y={AXIS - 1 - height(each.good, most)} height={height(each.good, most)}><title>{`${clock(each.from, span)}: ${each.good} normal`}</title></rect>}
            {each.bad > 0 && <rect class="bad" x={at * 10 + 1} width="8" y={AXIS + 1} height={height(each.bad, most) / 2}><title>{`${clock(each.from, span)}: ${each.bad} warnings`}</title></rect>}
          </g>
        ))}
      </svg>
      <div class="ticks soft" aria-hidden="true">
        {TICKS.map((share) => <span key={share} style={{ left: `${share * 100}%` }}>{share === 1 ? "now" : clock(now - span * (1 - share), span)}</span>)}
      </div>
    </figure>
  );
}

/** By the square root, so that one warning beside a thousand normal events stays visible. */
const height = (count: number, most: number): number => Math.max(5, Math.sqrt(count / most) * (AXIS - 4));

const clock = (time: number, span: number): string =>
  new Date(time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: span < 600_000 ? "2-digit" : undefined, hourCycle: "h23" });
