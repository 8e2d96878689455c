import type { Tone } from "../model/phases";
import { HUB_RADIUS, type Layout, type PlacedHome, type PlacedSite, SITE_RADIUS, type View } from "./layout";

/** Draws the fleet on a canvas. Things swim to their new places; nothing is drawn while nothing changes. */
export interface Palette {
  ink: string;
  soft: string;
  line: string;
  panel: string;
  accent: string;
  tones: Record<Tone, string>;
  font: string;
}

interface Spot {
  x: number;
  y: number;
  size: number;
}

const EASE = 0.16;
const AT_REST = 0.3;
const NODES_FROM_SCALE = 0.75;
const NAMES_FROM_SCALE = 1.25;
const MOST_DOTS = 16;

export class Painter {
  private readonly spots = new Map<string, Spot>();
  private made: Layout | null = null;

  constructor(
    private readonly context: CanvasRenderingContext2D,
    private readonly still: boolean,
  ) {}

  show(made: Layout): void {
    this.made = made;
    const keys = new Set([...made.homes.map((each) => each.home.key), ...made.sites.map((each) => each.site.key)]);
    for (const key of this.spots.keys()) if (!keys.has(key)) this.spots.delete(key);
  }

  /** One frame; whether another one is needed. */
  paint(view: View, palette: Palette, width: number, height: number, ratio: number, chosen: string): boolean {
    const { context: c, made } = this;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, width, height);
    if (!made) return false;
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
    return moving;
  }

  private step(key: string, x: number, y: number, size: number, from?: PlacedHome): boolean {
    const spot = this.spots.get(key);
    if (!spot || this.still) {
      this.spots.set(key, this.still ? { x, y, size } : { x: from?.x ?? x, y: from?.y ?? y, size: from ? 0 : size });
      return !this.still;
    }
    spot.x += (x - spot.x) * EASE;
    spot.y += (y - spot.y) * EASE;
    spot.size += (size - spot.size) * EASE;
    const rest = Math.abs(x - spot.x) + Math.abs(y - spot.y) < AT_REST && Math.abs(size - spot.size) < 0.01 * size;
    if (rest) Object.assign(spot, { x, y, size });
    return !rest;
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
    const letter = 13 / Math.max(0.35, view.scale);
    const sum = `${home.sites.length} ${home.sites.length === 1 ? "cluster" : "clusters"}`;
    const words = home.sort === "worker" && home.tone !== "good" ? `${home.phase}, ${sum}` : sum;
    this.words(home.title, x, y + size + letter * 1.35, `600 ${letter}px`, palette.ink, palette);
    this.words(words, x, y + size + letter * 2.5, `${letter * 0.88}px`, palette.soft, palette);
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
      if (placed.site.tone !== "good") mark(c, placed.site.tone, x, y, SITE_RADIUS * size, palette);
      if (view.scale >= NODES_FROM_SCALE) this.nodes(placed, x, y, size, palette);
      if (view.scale >= NAMES_FROM_SCALE) this.name(placed, x, y, palette, view);
      if (placed.site.key === chosen) {
        c.lineWidth = 2.5 / view.scale;
        c.strokeStyle = palette.accent;
        c.beginPath();
        c.arc(x, y, SITE_RADIUS + 5, 0, 2 * Math.PI);
        c.stroke();
      }
    }
  }

  /** Most are well: all of them are one path, filled once. */
  private wellOnes(made: Layout, palette: Palette): void {
    const { context: c } = this;
    c.beginPath();
    for (const { site } of made.sites) {
      if (site.tone !== "good") continue;
      const { x, y, size } = this.spot(site.key);
      c.moveTo(x + SITE_RADIUS * size, y);
      c.arc(x, y, SITE_RADIUS * size, 0, 2 * Math.PI);
    }
    c.fillStyle = palette.tones.good;
    c.fill();
  }

  /** A dot for each node around its cluster; a fuller ring is a fuller cluster. */
  private nodes({ site }: PlacedSite, x: number, y: number, size: number, palette: Palette): void {
    const { context: c } = this;
    const dots = Math.min(site.nodes, MOST_DOTS);
    c.fillStyle = palette.soft;
    for (let at = 0; at < dots; at += 1) {
      const angle = (at / Math.max(dots, 6)) * 2 * Math.PI - Math.PI / 2;
      c.beginPath();
      c.arc(x + Math.cos(angle) * (SITE_RADIUS + 3) * size, y + Math.sin(angle) * (SITE_RADIUS + 3) * size, 1.4, 0, 2 * Math.PI);
      c.fill();
    }
    if (site.used !== undefined && site.used > 0 && site.tone === "good") {
      c.lineWidth = 2.2;
      c.strokeStyle = palette.panel;
      c.beginPath();
      c.arc(x, y, SITE_RADIUS - 2.6, -Math.PI / 2, -Math.PI / 2 + Math.min(1, site.used) * 2 * Math.PI);
      c.stroke();
    }
  }

  private name({ site }: PlacedSite, x: number, y: number, palette: Palette, view: View): void {
    const letter = Math.min(9, 11 / view.scale);
    this.words(site.name, x, y + SITE_RADIUS + 4 + letter, `${letter}px`, palette.ink, palette);
  }

  /** With a rim, so that they can be read on top of anything. */
  private words(text: string, x: number, y: number, font: string, colour: string, palette: Palette): void {
    const { context: c } = this;
    c.font = `${font} ${palette.font}`;
    c.textAlign = "center";
    c.lineJoin = "round";
    c.lineWidth = 4;
    c.strokeStyle = palette.panel;
    c.strokeText(text, x, y);
    c.fillStyle = colour;
    c.fillText(text, x, y);
  }
}

/** Tones have shapes of their own: full, half, hollow, a diamond, dashed. */
function mark(c: CanvasRenderingContext2D, tone: Exclude<Tone, "good">, x: number, y: number, r: number, palette: Palette): void {
  const colour = palette.tones[tone];
  c.beginPath();
  if (tone === "bad") {
    c.moveTo(x, y - r * 1.2);
    c.lineTo(x + r * 1.2, y);
    c.lineTo(x, y + r * 1.2);
    c.lineTo(x - r * 1.2, y);
    c.closePath();
    c.fillStyle = colour;
    c.fill();
    return;
  }
  c.arc(x, y, r - 1, 0, 2 * Math.PI);
  c.fillStyle = palette.panel;
  c.fill();
  c.lineWidth = 2;
  c.strokeStyle = colour;
  if (tone === "unknown") c.setLineDash([2.5, 2.5]);
  c.stroke();
  c.setLineDash([]);
  if (tone !== "busy") return;
  c.beginPath();
  c.arc(x, y, r - 1, Math.PI / 2, Math.PI * 1.5);
  c.fillStyle = colour;
  c.fill();
}
