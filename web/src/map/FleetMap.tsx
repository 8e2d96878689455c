import type { JSX } from "preact";
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Home } from "../model/fleet";
import { hrefOf } from "../ui/hooks";
import { fitted, homeAt, type Layout, layout, neighbour, type PlacedSite, siteAt, SITE_RADIUS, type View } from "./layout";
import { Painter, type Palette } from "./painter";

const ARROWS: Record<string, [number, number]> = {
  ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1],
};
const LARGEST = 6;
const EDGE = 60;
const HALF_TIP = 150;

export function FleetMap({ homes, theme }: { homes: Home[]; theme: string }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [size, setSize] = useState({ width: 0, height: 0 });
  const [chosen, setChosen] = useState<PlacedSite | null>(null);
  const [own, setOwn] = useState<View | null>(null);
  const drag = useRef<{ x: number; y: number; view: View; moved: boolean } | null>(null);

  const made = useMemo(() => layout(homes, size.height ? size.width / size.height : 1.6), [homes, size]);
  const whole = useMemo(() => fitted(made, size.width, size.height), [made, size]);
  const view = own ?? whole;
  // The choice is by key: what is chosen may have moved meanwhile.
  const current = chosen ? made.sites.find((each) => each.site.key === chosen.site.key) ?? null : null;

  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => {
      const { width, height } = entry!.contentRect;
      setSize({ width, height });
    });
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);

  usePainting(canvas, made, view, size, theme, current?.site.key ?? "");

  const zoom = useCallback(
    (factor: number, x = size.width / 2, y = size.height / 2) => {
      setOwn((now) => {
        const from = now ?? whole;
        const scale = Math.max(whole.scale, Math.min(LARGEST, from.scale * factor));
        if (scale === whole.scale) return null;
        const by = scale / from.scale;
        return { scale, x: x - (x - from.x) * by, y: y - (y - from.y) * by };
      });
    },
    [size, whole],
  );

  const point = (event: MouseEvent): [number, number] => {
    const { left, top } = canvas.current!.getBoundingClientRect();
    return [(event.clientX - left - view.x) / view.scale, (event.clientY - top - view.y) / view.scale];
  };
  const under = (event: MouseEvent): PlacedSite | undefined =>
    siteAt(made, ...point(event), Math.max(SITE_RADIUS * 1.6, 10 / view.scale));

  /** What is chosen by keys is brought into sight. */
  const choose = (site: PlacedSite | null): void => {
    setChosen(site);
    if (!site || !own) return;
    const [x, y] = [own.x + site.x * own.scale, own.y + site.y * own.scale];
    const aside = (at: number, most: number): number => (at < EDGE ? EDGE - at : at > most - EDGE ? most - EDGE - at : 0);
    const [dx, dy] = [aside(x, size.width), aside(y, size.height)];
    if (dx || dy) setOwn({ ...own, x: own.x + dx, y: own.y + dy });
  };

  const onKeyDown = (event: KeyboardEvent): void => {
    const arrow = ARROWS[event.key];
    if (arrow) choose(current ? neighbour(made, current, ...arrow) : made.sites[0] ?? null);
    else if (event.key === "Enter" && current) location.hash = hrefOf(current.site.link);
    else if (event.key === "+" || event.key === "=") zoom(1.4);
    else if (event.key === "-") zoom(1 / 1.4);
    else if (event.key === "0") setOwn(null);
    else if (event.key === "Escape") setChosen(null);
    else return;
    event.preventDefault();
  };

  const onWheel = (event: WheelEvent): void => {
    const { left, top } = canvas.current!.getBoundingClientRect();
    event.preventDefault();
    zoom(Math.exp(-event.deltaY * 0.0015), event.clientX - left, event.clientY - top);
  };
  useEffect(() => {
    const element = canvas.current!;
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => element.removeEventListener("wheel", onWheel);
  });

  const onPointerMove = (event: PointerEvent): void => {
    const start = drag.current;
    if (start) {
      const [dx, dy] = [event.clientX - start.x, event.clientY - start.y];
      start.moved ||= Math.hypot(dx, dy) > 4;
      if (start.moved) setOwn({ ...start.view, x: start.view.x + dx, y: start.view.y + dy });
      return;
    }
    const found = under(event) ?? null;
    canvas.current!.style.cursor = found ? "pointer" : "grab";
    if (found?.site.key !== current?.site.key && (found || event.pointerType === "mouse")) setChosen(found);
  };
  const onPointerUp = (event: PointerEvent): void => {
    const moved = drag.current?.moved;
    drag.current = null;
    if (moved) return;
    const site = under(event);
    const link = site?.site.link ?? homeAt(made, ...point(event))?.home.link;
    if (link) location.hash = hrefOf(link);
  };

  return (
    <div class="map" ref={box}>
      <canvas
        ref={canvas}
        role="application"
        aria-label="Fleet map"
        aria-describedby="map-help map-summary"
        tabIndex={0}
        onKeyDown={onKeyDown}
        onPointerDown={(event) => {
          drag.current = { x: event.clientX, y: event.clientY, view, moved: false };
          canvas.current!.setPointerCapture(event.pointerId);
        }}
        onPointerMove={onPointerMove}
        onPointerUp={onPointerUp}
        onPointerLeave={() => !drag.current && setChosen(null)}
        onBlur={() => setChosen(null)}
      />
      <p id="map-help" class="hidden">
        Arrow keys move between clusters, Enter opens one, plus and minus zoom, 0 shows the whole fleet. The button “Table”
        shows the same data as a table.
      </p>
      <div class="zoom" role="group" aria-label="Zoom">
        <button type="button" onClick={() => zoom(1.4)} aria-label="Zoom in">+</button>
        <button type="button" onClick={() => zoom(1 / 1.4)} aria-label="Zoom out">−</button>
        {own && <button type="button" onClick={() => { setOwn(null); canvas.current!.focus(); }}>Whole fleet</button>}
      </div>
      <div class="hidden" aria-live="polite">{current ? sentence(current) : ""}</div>
      {current && <Tip placed={current} view={view} width={size.width} />}
    </div>
  );
}

const sentence = ({ site, home }: PlacedSite): string =>
  [site.title, site.phase, `${site.nodes} nodes`, `on ${home.home.title}`, site.problem].filter(Boolean).join(", ");

function Tip({ placed, view, width }: { placed: PlacedSite; view: View; width: number }): JSX.Element {
  const { site, home } = placed;
  const x = Math.max(HALF_TIP, Math.min(width - HALF_TIP, view.x + placed.x * view.scale));
  const y = view.y + placed.y * view.scale;
  const above = y > 140;
  return (
    <div class={`tip ${above ? "above" : "below"}`} style={{ left: `${x}px`, top: `${y}px` }} aria-hidden="true">
      <strong>{site.title}</strong>
      <span>
        {site.phase}
        {home.home.sort === "worker" && ` on ${home.home.title}`}
      </span>
      <span class="soft">
        {site.nodes} {site.nodes === 1 ? "node" : "nodes"}
        {site.used !== undefined && `, ${Math.round(site.used * 100)} % of CPU requested`}
      </span>
      {site.problem && <span class="soft">{site.problem}</span>}
    </div>
  );
}

/** Paints when something has changed, and as long as something moves. */
function usePainting(
  canvas: { current: HTMLCanvasElement | null },
  made: Layout,
  view: View,
  size: { width: number; height: number },
  theme: string,
  chosen: string,
): void {
  const painter = useRef<Painter | null>(null);
  const palette = useMemo(() => paletteOf(), [theme, size]);
  useEffect(() => {
    const element = canvas.current!;
    const ratio = Math.min(2, devicePixelRatio || 1);
    element.width = Math.round(size.width * ratio);
    element.height = Math.round(size.height * ratio);
  }, [size]);
  useEffect(() => {
    const element = canvas.current!;
    const context = element.getContext("2d");
    if (!context || !size.width) return undefined;
    painter.current ??= new Painter(context, matchMedia("(prefers-reduced-motion: reduce)").matches);
    painter.current.show(made);
    const ratio = element.width / size.width;
    let frame = 0;
    const paint = (now: number): void => {
      const more = painter.current!.paint(now, view, palette, size.width, size.height, ratio, chosen);
      frame = more ? requestAnimationFrame(paint) : 0;
    };
    frame = requestAnimationFrame(paint);
    return () => cancelAnimationFrame(frame);
  }, [made, view, size, palette, chosen]);
}

function paletteOf(): Palette {
  const style = getComputedStyle(document.documentElement);
  const of = (name: string): string => style.getPropertyValue(`--${name}`).trim();
  return {
    ink: of("ink"), soft: of("soft"), line: of("line-strong"), panel: of("panel"), ground: of("ground"), accent: of("accent"), font: of("font"),
    tones: { good: of("good"), busy: of("busy"), waiting: of("waiting"), bad: of("bad"), unknown: of("unknown") },
  };
}
