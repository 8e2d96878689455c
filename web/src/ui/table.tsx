import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

/** A table of any length: rows have one height, and only those in sight are in the page. Its rows are one stop of the
 * Tab key; arrows go from row to row, Home and End to the ends, Escape out of the rows. */
export interface Column<Row> {
  id: string;
  title: string;
  show: (row: Row) => ComponentChildren;
  /** Without, one cannot sort by it. */
  by?: (row: Row) => string | number;
  numeric?: boolean;
  width?: string;
  /** Left out where the window is narrow; the others have the width `narrow` there. */
  wide?: boolean;
  narrow?: string;
}

interface Props<Row> {
  label: string;
  rows: Row[];
  columns: Column<Row>[];
  keyOf: (row: Row) => string;
  first: string;
  descending?: boolean;
  chosen?: string;
  /** Takes as much height as its rows, up to the window's. */
  short?: boolean;
}

const HEIGHT = 41;
const HEAD = 39;
const AHEAD = 8;

export function Table<Row>({ label, rows, columns, keyOf, first, descending, chosen, short }: Props<Row>): JSX.Element {
  const scroller = useRef<HTMLDivElement>(null);
  const [sort, setSort] = useState({ id: first, down: descending ?? false });
  const by = columns.find((each) => each.id === sort.id)?.by;
  const ordered = useMemo(() => (by ? sorted(rows, by, sort.down) : rows), [rows, sort]);
  const view = useView(scroller);

  const from = Math.max(0, Math.floor(view.top / HEIGHT) - AHEAD);
  const to = Math.min(ordered.length, Math.ceil((view.top + view.height) / HEIGHT) + AHEAD);
  const onKeyDown = useRows(scroller, ordered.length, from, to);
  const turn = (id: string): void => setSort((now) => ({ id, down: now.id === id ? !now.down : false }));
  const classOf = ({ numeric, wide }: Column<Row>): string | undefined =>
    [numeric && "numeric", wide && "wide"].filter(Boolean).join(" ") || undefined;

  return (
    <div class={short ? "scroller short" : "scroller"} ref={scroller} tabIndex={0} role="region" aria-label={label} onKeyDown={onKeyDown}>
      <table aria-rowcount={ordered.length + 1}>
        <caption class="hidden">{label}</caption>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map((column) => (
              <th
                key={column.id}
                scope="col"
                class={classOf(column)}
                style={{ width: column.width, "--narrow": column.narrow }}
                aria-sort={sort.id === column.id ? (sort.down ? "descending" : "ascending") : undefined}
              >
                {column.by ? (
                  <button type="button" class="sort" onClick={() => turn(column.id)}>
                    {column.title}
                    <span class="turn" aria-hidden="true">{sort.id === column.id ? (sort.down ? "↓" : "↑") : ""}</span>
                  </button>
                ) : (
                  column.title
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          <Space rows={from} />
          {ordered.slice(from, to).map((row, at) => {
            const key = keyOf(row);
            return (
              <tr key={key} aria-rowindex={from + at + 2} class={key === chosen ? "chosen" : undefined}>
                {columns.map((column) => (
                  <td key={column.id} class={classOf(column)}>
                    {column.show(row)}
                  </td>
                ))}
              </tr>
            );
          })}
          <Space rows={ordered.length - to} />
        </tbody>
      </table>
    </div>
  );
}

type Scroller = { current: HTMLDivElement | null };

function useView(scroller: Scroller): { top: number; height: number } {
  const [view, setView] = useState({ top: 0, height: 800 });
  useEffect(() => {
    const element = scroller.current!;
    let frame = 0;
    const look = (): void => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(() => setView({ top: element.scrollTop, height: element.clientHeight }));
    };
    look();
    element.addEventListener("scroll", look, { passive: true });
    const observer = new ResizeObserver(look);
    observer.observe(element);
    return () => {
      cancelAnimationFrame(frame);
      element.removeEventListener("scroll", look);
      observer.disconnect();
    };
  }, []);
  return view;
}

/** Rows by keys. The row that is meant may not be in the page yet: it gets the focus when it has come. */
function useRows(scroller: Scroller, count: number, from: number, to: number): (event: KeyboardEvent) => void {
  // An object: the same row once more is a step, too.
  const [step, setStep] = useState({ row: 0 });
  const taken = useRef(step);
  const inside = useRef(false);
  const row = Math.min(step.row, count - 1);

  useLayoutEffect(() => {
    const element = scroller.current!;
    const rows = element.querySelectorAll<HTMLTableRowElement>("tbody tr:not(.space)");
    rows.forEach((each, index) => each.querySelectorAll("a").forEach((link) => (link.tabIndex = from + index === row ? 0 : -1)));
    if (taken.current !== step && row >= from && row < to) {
      taken.current = step;
      const target = rows[row - from]!;
      const link = target.querySelector<HTMLElement>("a");
      if (!link) target.tabIndex = -1;
      (link ?? target).focus({ preventScroll: true });
    } else if (inside.current && document.activeElement === document.body) {
      // The row that had the focus was scrolled away.
      element.focus({ preventScroll: true });
    }
    inside.current = element.contains(document.activeElement);
  });

  return (event) => {
    const element = scroller.current!;
    const active = document.activeElement?.closest("tbody tr");
    if (event.key === "Escape" && active) {
      element.focus({ preventScroll: true });
      event.preventDefault();
      event.stopPropagation();
      return;
    }
    const here = active ? Number(active.getAttribute("aria-rowindex")) - 2 : null;
    const page = Math.max(1, Math.floor(element.clientHeight / HEIGHT) - 2);
    const first = Math.ceil(element.scrollTop / HEIGHT);
    const next = nextRow(event.key, here, first, page, count);
    if (next === undefined || document.activeElement?.closest("thead")) return;
    event.preventDefault();
    const [top, bottom] = [next * HEIGHT, (next + 1) * HEIGHT + HEAD - element.clientHeight];
    if (element.scrollTop > top) element.scrollTop = top;
    else if (element.scrollTop < bottom) element.scrollTop = bottom;
    setStep({ row: next });
  };
}

/** Where a key leads from a row; without a row, the first in sight. */
export function nextRow(key: string, here: number | null, first: number, page: number, count: number): number | undefined {
  const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
  const within = (at: number): number => Math.max(0, Math.min(count - 1, at));
  if (key === "Home") return 0;
  if (key === "End") return count - 1;
  const step = steps[key];
  if (step === undefined) return undefined;
  return within(here === null ? first : here + step);
}

/** One cell: more would be columns of their own where some are left out. */
function Space({ rows }: { rows: number }): JSX.Element | null {
  if (rows <= 0) return null;
  return (
    <tr aria-hidden="true" class="space" style={{ height: `${rows * HEIGHT}px` }}>
      <td />
    </tr>
  );
}

function sorted<Row>(rows: Row[], by: (row: Row) => string | number, down: boolean): Row[] {
  const sign = down ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [x, y] = [by(a), by(b)];
    return x < y ? -sign : x > y ? sign : 0;
  });
}
