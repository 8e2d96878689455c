import type { Tone } from "../model/phases";
import { HUB_RADIUS, type Layout, type PlacedHome, type PlacedSite, SITE_RADIUS, type View } from "./layout";

/** Draws the fleet on a canvas. Things swim to their new places; nothing is drawn while nothing changes. */
export interface Palette {
  ink: string;
  soft: string;
  line: string;
  panel: string;
  ground: string;
  accent: string;
  tones: Record<Tone, string>;
  font: string;
}

interface Spot {
  x: number;
  y: number;
  size: number;
}

/** Of a way, what is left after this time is a third. */
const EASE_MS = 85;
const AT_REST = 0.3;
interface Box {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

const overlap = (a: Box, b: Box): boolean => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

const COUNTS_FROM_SCALE = 0.25;
const NODES_FROM_SCALE = 0.75;
const NAMES_FROM_SCALE = 1.25;
const MOST_DOTS = 16;

export class Painter {
  private readonly spots = new Map<string, Spot>();
  private made: Layout | null = null;
  private last = 0;
  private share = 1;
  private sight: Box = { left: 0, right: 0, top: 0, bottom: 0 };
  private readonly widths = new Map<string, number>();

  constructor(
    private readonly context: CanvasRenderingContext2D,
    private readonly still: boolean,
  ) {}

  show(made: Layout): void {
    this.made = made;
    const keys = new Set([...made.homes.map((each) => each.home.key), ...made.sites.map((each) => each.site.key)]);
    for (const key of this.spots.keys()) if (!keys.has(key)) this.spots.delete(key);
  }

  /** One frame; whether another one is needed. By the clock, so that a slow machine sees fewer frames and no slower fish. */
  paint(now: number, view: View, palette: Palette, width: number, height: number, ratio: number, chosen: string): boolean {
    const { context: c, made } = this;
    this.share = 1 - Math.exp(-Math.min(400, Math.max(8, now - this.last)) / EASE_MS);
    this.last = now;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, width, height);
    if (!made) return false;
    this.sight = {
      left: -view.x / view.scale, right: (width - view.x) / view.scale,
      top: -view.y / view.scale, bottom: (height - view.y) / view.scale,
    };
    c.translate(view.x, view.y);
    c.scale(view.scale, view.scale);
    let moving = false;
    for (const home of made.homes) moving = this.step(home.home.key, home.x, home.y, home.r) || moving;
    for (const site of made.sites) {
      // A new cluster comes out of its home; one that moves swims there.
      moving = this.step(site.site.key, site.x, site.y, 1, site.home) || moving;
    }
    this.links(made, palette, view);
    for (const home of made.homes) this.home(home, palette, view);
    this.hub(palette, view);
    this.sites(made, palette, view, chosen);
    this.titles(made.homes, palette, view);
    return moving;
  }

  private step(key: string, x: number, y: number, size: number, from?: PlacedHome): boolean {
    const spot = this.spots.get(key);
    if (!spot || this.still) {
      this.spots.set(key, this.still ? { x, y, size } : { x: from?.x ?? x, y: from?.y ?? y, size: from ? 0 : size });
      return !this.still;
    }
    spot.x += (x - spot.x) * this.share;
    spot.y += (y - spot.y) * this.share;
    spot.size += (size - spot.size) * this.share;
    const rest = Math.abs(x - spot.x) + Math.abs(y - spot.y) < AT_REST && Math.abs(size - spot.size) < 0.01 * size;
    if (rest) Object.assign(spot, { x, y, size });
    return !rest;
  }

  private inSight(x: number, y: number, r: number): boolean {
    const { left, right, top, bottom } = this.sight;
    return x + r >= left && x - r <= right && y + r >= top && y - r <= bottom;
  }

  private spot(key: string): Spot {
    return this.spots.get(key) ?? { x: 0, y: 0, size: 1 };
  }

  private links(made: Layout, palette: Palette, view: View): void {
    const { context: c } = this;
    c.lineWidth = 1.5 / Math.sqrt(view.scale);
    for (const { home } of made.homes) {
      if (home.sort === "waiting") continue;
      const { x, y, size } = this.spot(home.key);
      const distance = Math.hypot(x, y) || 1;
      const [ux, uy] = [x / distance, y / distance];
      c.strokeStyle = home.tone === "good" ? palette.line : palette.tones[home.tone];
      c.setLineDash(home.tone === "good" ? [] : [5, 6]);
      c.beginPath();
      c.moveTo(0, 0);
      c.lineTo(x - ux * size, y - uy * size);
      c.stroke();
    }
    c.setLineDash([]);
  }

  private home({ home }: PlacedHome, palette: Palette, view: View): void {
    const { context: c } = this;
    const { x, y, size } = this.spot(home.key);
    c.beginPath();
    c.arc(x, y, size, 0, 2 * Math.PI);
    c.fillStyle = palette.panel;
    c.fill();
    c.lineWidth = 1.25 / Math.sqrt(view.scale);
    c.setLineDash(home.sort === "worker" ? [] : [4, 5]);
    c.strokeStyle = home.tone === "good" || home.sort !== "worker" ? palette.line : palette.tones[home.tone];
    c.stroke();
    c.setLineDash([]);
  }

  /** Below each home, as long as they do not run into each other: the largest homes have theirs first. */
  private titles(homes: PlacedHome[], palette: Palette, view: View): void {
    const letter = 13 / view.scale;
    const taken: Box[] = [];
    for (const { home } of [...homes].sort((a, b) => b.r - a.r)) {
      const { x, y, size } = this.spot(home.key);
      const sum = `${home.sites.length} ${home.sites.length === 1 ? "cluster" : "clusters"}`;
      const words = home.sort === "worker" && home.tone !== "good" ? `${home.phase}, ${sum}` : sum;
      const title = cut(home.title, Math.max(2 * size, 170 / view.scale), (text) => this.width(text, letter, palette) * 1.05);
      const half = Math.max(this.width(title, letter, palette) * 1.05, this.width(words, letter * 0.88, palette)) / 2;
      const box = { left: x - half, right: x + half, top: y + size + letter * 0.4, bottom: y + size + letter * 2.8 };
      if (taken.some((other) => overlap(box, other))) continue;
      taken.push(box);
      this.words(title, x, y + size + letter * 1.35, `600 ${letter}px`, palette.ink, palette);
      if (view.scale >= COUNTS_FROM_SCALE) this.words(words, x, y + size + letter * 2.5, `${letter * 0.88}px`, palette.soft, palette);
    }
  }

  private hub(palette: Palette, view: View): void {
    const { context: c } = this;
    c.beginPath();
    c.arc(0, 0, Math.max(20, Math.min(30, HUB_RADIUS * view.scale)) / view.scale, 0, 2 * Math.PI);
    c.fillStyle = palette.accent;
    c.fill();
    c.fillStyle = palette.panel;
    c.textAlign = "center";
    c.font = `600 ${13 / view.scale}px ${palette.font}`;
    c.fillText("hub", 0, 4.5 / view.scale);
  }

  private sites(made: Layout, palette: Palette, view: View, chosen: string): void {
    const { context: c } = this;
    this.wellOnes(made, palette);
    for (const placed of made.sites) {
      const { x, y, size } = this.spot(placed.site.key);
      if (!this.inSight(x, y, placed.r * 4)) continue;
      if (placed.site.tone !== "good") mark(c, placed.site.tone, x, y, placed.r * size, 1.5 / view.scale, palette);
      if (view.scale >= NODES_FROM_SCALE) this.nodes(placed, x, y, size, palette);
      if (view.scale >= NAMES_FROM_SCALE) this.name(placed, x, y, palette, view);
      if (placed.site.key === chosen) {
        c.lineWidth = 2.5 / view.scale;
        c.strokeStyle = palette.accent;
        c.beginPath();
        c.arc(x, y, placed.r + 5, 0, 2 * Math.PI);
        c.stroke();
      }
    }
  }

  /** Most are well: all of them are one path, filled once. */
  private wellOnes(made: Layout, palette: Palette): void {
    const { context: c } = this;
    c.beginPath();
    for (const { site, r } of made.sites) {
      if (site.tone !== "good") continue;
      const { x, y, size } = this.spot(site.key);
      if (!this.inSight(x, y, r)) continue;
      c.moveTo(x + r * size, y);
      c.arc(x, y, r * size, 0, 2 * Math.PI);
    }
    c.fillStyle = palette.tones.good;
    c.fill();
  }

  /** A dot for each node around its cluster; a fuller ring is a fuller cluster. */
  private nodes({ site, r }: PlacedSite, x: number, y: number, size: number, palette: Palette): void {
    const { context: c } = this;
    const dots = Math.min(site.nodes, MOST_DOTS);
    const grain = (r / SITE_RADIUS) * size;
    c.fillStyle = palette.soft;
    c.beginPath();
    for (let at = 0; at < dots; at += 1) {
      const angle = (at / Math.max(dots, 6)) * 2 * Math.PI - Math.PI / 2;
      const [dx, dy] = [x + Math.cos(angle) * 9.4 * grain, y + Math.sin(angle) * 9.4 * grain];
      c.moveTo(dx + 1.3 * grain, dy);
      c.arc(dx, dy, 1.3 * grain, 0, 2 * Math.PI);
    }
    c.fill();
    if (site.used !== undefined && site.used > 0 && site.tone === "good") {
      c.lineWidth = 2 * grain;
      c.strokeStyle = palette.panel;
      c.globalAlpha = 0.75;
      c.beginPath();
      c.arc(x, y, 4.2 * grain, -Math.PI / 2, -Math.PI / 2 + Math.min(1, site.used) * 2 * Math.PI);
      c.stroke();
      c.globalAlpha = 1;
    }
  }

  private name({ site, r }: PlacedSite, x: number, y: number, palette: Palette, view: View): void {
    const letter = Math.min(9 * (r / SITE_RADIUS), 12 / view.scale);
    const name = cut(site.name, r * 6, (text) => this.width(text, letter, palette));
    this.words(name, x, y + r * 1.65 + 2 + letter, `${letter}px`, palette.ink, palette, palette.panel);
  }

  /** Measured once: a text is as wide as its letters are high. */
  private width(text: string, letter: number, palette: Palette): number {
    let found = this.widths.get(text);
    if (found === undefined) {
      this.context.font = `10px ${palette.font}`;
      found = this.context.measureText(text).width / 10;
      this.widths.set(text, found);
    }
    return found * letter;
  }

  /** With a rim, so that they can be read on top of anything. */
  private words(text: string, x: number, y: number, font: string, colour: string, palette: Palette, rim = palette.ground): void {
    const { context: c } = this;
    c.font = `${font} ${palette.font}`;
    c.textAlign = "center";
    c.lineJoin = "round";
    c.lineWidth = 4;
    c.strokeStyle = rim;
    c.strokeText(text, x, y);
    c.fillStyle = colour;
    c.fillText(text, x, y);
  }
}

/** Long names lose their middle: what tells them apart is often at the end. */
function cut(text: string, most: number, width: (text: string) => number): string {
  const share = most / width(text);
  if (share >= 1) return text;
  const kept = Math.max(4, Math.floor(text.length * share) - 1);
  return `${text.slice(0, Math.ceil(kept / 2))}…${text.slice(-Math.floor(kept / 2))}`;
}

/** Tones have shapes of their own: full, half, hollow, a diamond, dashed. */
function mark(c: CanvasRenderingContext2D, tone: Exclude<Tone, "good">, x: number, y: number, r: number, thin: number, palette: Palette): void {
  const colour = palette.tones[tone];
  c.beginPath();
  if (tone === "bad") {
    c.moveTo(x, y - r * 1.4);
    c.lineTo(x + r * 1.4, y);
    c.lineTo(x, y + r * 1.4);
    c.lineTo(x - r * 1.4, y);
    c.closePath();
    c.fillStyle = colour;
    c.fill();
    return;
  }
  // A cluster that has just come has no size yet.
  const inner = Math.max(0, r - 1);
  c.arc(x, y, inner, 0, 2 * Math.PI);
  c.fillStyle = palette.panel;
  c.fill();
  c.lineWidth = Math.min(r, Math.max(thin, 2 * (r / SITE_RADIUS)));
  c.strokeStyle = colour;
  if (tone === "unknown") c.setLineDash([2.5, 2.5]);
  c.stroke();
  c.setLineDash([]);
  if (tone !== "busy") return;
  c.beginPath();
  c.arc(x, y, inner, Math.PI / 2, Math.PI * 1.5);
  c.fillStyle = colour;
  c.fill();
}
