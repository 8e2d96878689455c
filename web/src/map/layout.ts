import type { Home, Site } from "../model/fleet";

/** Where everything is, in units of the picture; the hub is at 0, 0. The same fleet always looks the same. */
export interface PlacedSite {
  site: Site;
  home: PlacedHome;
  x: number;
  y: number;
}

export interface PlacedHome {
  home: Home;
  x: number;
  y: number;
  r: number;
}

export interface Layout {
  homes: PlacedHome[];
  sites: PlacedSite[];
  left: number;
  top: number;
  width: number;
  height: number;
}

export const SPACING = 24;
export const SITE_RADIUS = 7;
export const HUB_RADIUS = 26;
const PADDING = 18;
const GAP = 20;
const MARGIN = 14;
const FIRST_RING = 9;
const FURTHER = 7;
const PIECES = 1440;
const SMALLEST = 58;
/** The angle of sunflower seeds: any number of them fills a disc evenly. */
const GOLDEN = Math.PI * (3 - Math.sqrt(5));
const STEP = 12;

/** In steps, so that one cluster more does not push all the others around. */
export const radiusFor = (sites: number): number =>
  Math.max(SMALLEST, Math.ceil((SPACING * Math.sqrt(sites) + PADDING) / STEP) * STEP);

/** `aspect` is the width of the view by its height: the homes are spread to fill it. */
export function layout(homes: Home[], aspect: number): Layout {
  const stretch = Math.sqrt(Math.min(2.2, Math.max(0.6, aspect)));
  const circles = packed(homes.map((home) => radiusFor(home.sites.length)), stretch);
  const placed = homes.map((home, at): PlacedHome => ({ home, ...circles[at]! }));
  const sites = placed.flatMap((each) => each.home.sites.map((site, at) => seed(site, each, at)));
  const hub = { x: 0, y: 0, r: HUB_RADIUS };
  const edges = (side: (circle: Circle) => number): number[] => [hub, ...circles].map(side);
  const left = Math.min(...edges(({ x, r }) => x - r)) - MARGIN;
  const right = Math.max(...edges(({ x, r }) => x + r)) + MARGIN;
  const top = Math.min(...edges(({ y, r }) => y - r)) - MARGIN;
  const bottom = Math.max(...edges(({ y, r }) => y + r + titleOf(r) * 1.45)) + MARGIN;
  return { homes: placed, sites, left, top, width: right - left, height: bottom - top };
}

function seed(site: Site, home: PlacedHome, at: number): PlacedSite {
  const distance = home.home.sites.length === 1 ? 0 : SPACING * Math.sqrt(at + 0.4);
  const angle = at * GOLDEN - Math.PI / 2;
  return { site, home, x: home.x + distance * Math.cos(angle), y: home.y + distance * Math.sin(angle) };
}

interface Circle {
  x: number;
  y: number;
  r: number;
}

/** Room for the words below a home. */
const titleOf = (r: number): number => Math.max(38, r * 0.26);

let last: { of: string; circles: Circle[] } = { of: "", circles: [] };

/** Circles on rings around the hub, in their order. The last answer is kept: sizes change far less often than the
 * fleet does. */
function packed(radii: number[], stretch: number): Circle[] {
  const of = `${stretch} ${radii.join()}`;
  if (last.of === of) return last.circles;
  const circles: Circle[] = [];
  for (let room = FIRST_RING; circles.length < radii.length; room += FURTHER) {
    const left = radii.length - circles.length;
    // What would be a lonely rest goes onto this ring, too.
    const count = left <= room * 1.4 ? left : room;
    circles.push(...ring(radii.slice(circles.length, circles.length + count), circles, stretch));
  }
  last = { of, circles };
  return circles;
}

/** The narrowest ring on which these touch neither each other nor those inside. */
function ring(radii: number[], inside: Circle[], stretch: number): Circle[] {
  const angles = evenly(radii.length, stretch);
  for (let distance = HUB_RADIUS + GAP; ; distance += STEP) {
    const made = radii.map((r, at): Circle => {
      const angle = angles[at]!;
      return { x: distance * stretch * Math.cos(angle), y: (distance / stretch) * Math.sin(angle), r };
    });
    const free = made.every(
      (one, at) =>
        Math.hypot(one.x, one.y) >= one.r + 2 * HUB_RADIUS + GAP &&
        inside.every((other) => apart(one, other)) &&
        made.slice(at + 1).every((other) => apart(one, other)),
    );
    if (free) return made;
  }
}

/** Angles of points at equal distances along the oval: equal angles would crowd its narrow ends. */
function evenly(count: number, stretch: number): number[] {
  const lengths = [0];
  for (let at = 1; at <= PIECES; at += 1) {
    const middle = ((at - 0.5) / PIECES) * 2 * Math.PI;
    lengths.push(lengths[at - 1]! + Math.hypot(stretch * Math.sin(middle), Math.cos(middle) / stretch));
  }
  // Few begin at the left; more leave the narrow ends free.
  const first = count >= 4 ? 0.5 : 0;
  return Array.from({ length: count }, (_, at) => {
    const wanted = ((at + first) / count) * lengths[PIECES]!;
    return Math.PI + (lengths.findIndex((length) => length >= wanted) / PIECES) * 2 * Math.PI;
  });
}

function apart(one: Circle, other: Circle): boolean {
  const title = titleOf(Math.max(one.r, other.r)) * Math.min(1, Math.abs(one.y - other.y) / (one.r + other.r));
  return (one.x - other.x) ** 2 + (one.y - other.y) ** 2 >= (one.r + other.r + GAP + title) ** 2;
}

export interface View {
  scale: number;
  x: number;
  y: number;
}

export const LARGEST_SCALE = 1.9;

export function fitted(made: Layout, width: number, height: number): View {
  const scale = Math.min(LARGEST_SCALE, width / made.width, height / made.height);
  const [x, y] = [made.left + made.width / 2, made.top + made.height / 2];
  return { scale, x: width / 2 - x * scale, y: height / 2 - y * scale };
}

/** The site nearest to a point of the picture, if it is near enough to be meant. */
export function siteAt(made: Layout, x: number, y: number, reach: number): PlacedSite | undefined {
  let best: PlacedSite | undefined;
  let least = reach;
  for (const each of made.sites) {
    const distance = Math.hypot(each.x - x, each.y - y);
    if (distance <= least) [best, least] = [each, distance];
  }
  return best;
}

export const homeAt = (made: Layout, x: number, y: number): PlacedHome | undefined =>
  made.homes.find((each) => Math.hypot(each.x - x, each.y - y) <= each.r);

/** The next site in the direction of an arrow key. */
export function neighbour(made: Layout, from: PlacedSite, dx: number, dy: number): PlacedSite {
  let best = from;
  let least = Infinity;
  for (const each of made.sites) {
    const along = (each.x - from.x) * dx + (each.y - from.y) * dy;
    const aside = Math.abs((each.x - from.x) * dy) + Math.abs((each.y - from.y) * dx);
    if (along <= 1) continue;
    const cost = along + 2 * aside;
    if (cost < least) [best, least] = [each, cost];
  }
  return best;
}
