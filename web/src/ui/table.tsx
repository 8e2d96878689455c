import type { ComponentChildren, JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

/** A table of any length: rows have one height, and only those in sight are in the page. */
export interface Column<Row> {
  id: string;
  title: string;
  show: (row: Row) => ComponentChildren;
  /** Without, one cannot sort by it. */
  by?: (row: Row) => string | number;
  numeric?: boolean;
  width?: string;
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
const AHEAD = 8;

export function Table<Row>({ label, rows, columns, keyOf, first, descending, chosen, short }: Props<Row>): JSX.Element {
  const scroller = useRef<HTMLDivElement>(null);
  const [sort, setSort] = useState({ id: first, down: descending ?? false });
  const [view, setView] = useState({ top: 0, height: 800 });
  const by = columns.find((each) => each.id === sort.id)?.by;
  const ordered = useMemo(() => (by ? sorted(rows, by, sort.down) : rows), [rows, sort]);

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

  const from = Math.max(0, Math.floor(view.top / HEIGHT) - AHEAD);
  const to = Math.min(ordered.length, Math.ceil((view.top + view.height) / HEIGHT) + AHEAD);
  const turn = (id: string): void => setSort((now) => ({ id, down: now.id === id ? !now.down : false }));

  return (
    <div class={short ? "scroller short" : "scroller"} ref={scroller} tabIndex={0} role="region" aria-label={label}>
      <table aria-rowcount={ordered.length + 1}>
        <caption class="hidden">{label}</caption>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map((column) => (
              <th
                key={column.id}
                scope="col"
                class={column.numeric ? "numeric" : undefined}
                style={column.width ? { width: column.width } : undefined}
                aria-sort={sort.id === column.id ? (sort.down ? "descending" : "ascending") : undefined}
              >
                {column.by ? (
                  <button type="button" class="sort" onClick={() => turn(column.id)}>
                    {column.title}
                    <span aria-hidden="true">{sort.id === column.id ? (sort.down ? " ↓" : " ↑") : ""}</span>
                  </button>
                ) : (
                  column.title
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          <Space rows={from} columns={columns.length} />
          {ordered.slice(from, to).map((row, at) => {
            const key = keyOf(row);
            return (
              <tr key={key} aria-rowindex={from + at + 2} class={key === chosen ? "chosen" : undefined}>
                {columns.map((column) => (
                  <td key={column.id} class={column.numeric ? "numeric" : undefined}>
                    {column.show(row)}
                  </td>
                ))}
              </tr>
            );
          })}
          <Space rows={ordered.length - to} columns={columns.length} />
        </tbody>
      </table>
    </div>
  );
}

function Space({ rows, columns }: { rows: number; columns: number }): JSX.Element | null {
  if (rows <= 0) return null;
  return (
    <tr aria-hidden="true" class="space" style={{ height: `${rows * HEIGHT}px` }}>
      <td colSpan={columns} />
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
