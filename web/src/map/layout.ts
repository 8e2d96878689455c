import type { Home, Site } from "../model/fleet";

/** Where everything is, in units of the picture; the hub is at 0, 0. The same fleet always looks the same. */
export interface PlacedSite {
  site: Site;
  home: PlacedHome;
  x: number;
  y: number;
  r: number;
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

export const SPACING = 21.5;
export const SITE_RADIUS = 7;
export const HUB_RADIUS = 26;
const PADDING = 18;
const GAP = 20;
const MARGIN = 14;
const FIRST_RING = 9;
const FURTHER = 7;
const PIECES = 1440;
const SMALLEST = 58;
const SMALLEST_SHARE = 0.3;
/** The angle of sunflower seeds: any number of them fills a disc evenly. */
const GOLDEN = Math.PI * (3 - Math.sqrt(5));
const STEP = 12;
const WAYS = [0.8, 0.9, 1, 1.12, 1.25, 1.4, 1.6];
const MOST_COMPARED = 40;

/** How large a cluster is drawn: few have room to be looked at, many are a school. */
export const grainFor = (sites: number): number => (sites <= 12 ? 2.4 : sites <= 60 ? 1.6 : 1);

/** In steps, so that one cluster more does not push all the others around. */
export const radiusFor = (sites: number, grain = 1): number =>
  Math.max(SMALLEST, Math.ceil((SPACING * grain * Math.sqrt(sites) + PADDING) / STEP) * STEP);

/** `aspect` is the width of the view by its height: the homes are spread to fill it. */
export function layout(homes: Home[], aspect: number): Layout {
  const grain = grainFor(homes.reduce((sum, home) => sum + home.sites.length, 0));
  const radii = homes.map((home) => radiusFor(home.sites.length, grain));
  // Beside large homes a small one needs room for its name.
  const least = Math.ceil((Math.max(0, ...radii) * SMALLEST_SHARE) / STEP) * STEP;
  const circles = packed(radii.map((r) => Math.max(r, least)), aspect);
  const placed = homes.map((home, at): PlacedHome => ({ home, ...circles[at]! }));
  const sites = placed.flatMap((each) => each.home.sites.map((site, at) => seed(site, each, at, grain)));
  return { homes: placed, sites, ...frameOf(circles) };
}

interface Frame {
  left: number;
  top: number;
  width: number;
  height: number;
}

function frameOf(circles: Circle[]): Frame {
  const hub = { x: 0, y: 0, r: HUB_RADIUS };
  const edges = (side: (circle: Circle) => number): number[] => [hub, ...circles].map(side);
  const left = Math.min(...edges(({ x, r }) => x - r)) - MARGIN;
  const right = Math.max(...edges(({ x, r }) => x + r)) + MARGIN;
  const top = Math.min(...edges(({ y, r }) => y - r)) - MARGIN;
  const bottom = Math.max(...edges(({ y, r }) => y + r)) + MARGIN;
  return { left, top, width: right - left, height: bottom - top };
}

function seed(site: Site, home: PlacedHome, at: number, grain: number): PlacedSite {
  const distance = home.home.sites.length === 1 ? 0 : SPACING * grain * Math.sqrt(at + 0.4);
  const angle = at * GOLDEN - Math.PI / 2;
  return { site, home, x: home.x + distance * Math.cos(angle), y: home.y + distance * Math.sin(angle), r: SITE_RADIUS * grain };
}

interface Circle {
  x: number;
  y: number;
  r: number;
}

/** Room for the words below a home. */
const titleOf = (r: number): number => Math.max(38, r * 0.26);

let last: { of: string; circles: Circle[] } = { of: "", circles: [] };

/** Of some ways to put them around the hub, the one that can be drawn largest. The last answer is kept: sizes change
 * far less often than the fleet does. */
function packed(radii: number[], aspect: number): Circle[] {
  const of = `${aspect} ${radii.join()}`;
  if (last.of === of) return last.circles;
  const flat = Math.sqrt(Math.min(2.2, Math.max(0.6, aspect)));
  const ways = radii.length > MOST_COMPARED ? [1] : WAYS;
  let [circles, largest]: [Circle[], number] = [[], 0];
  for (const way of ways) {
    const found = settled(rings(radii, flat * way));
    const { width, height } = frameOf(found);
    const scale = Math.min(aspect / width, 1 / height);
    if (scale > largest * 1.001) [circles, largest] = [found, scale];
  }
  last = { of, circles };
  return circles;
}

/** Circles on rings around the hub, in their order. */
function rings(radii: number[], stretch: number): Circle[] {
  const circles: Circle[] = [];
  for (let room = FIRST_RING; circles.length < radii.length; room += FURTHER) {
    const left = radii.length - circles.length;
    // What would be a lonely rest goes onto this ring, too.
    const count = left <= room * 1.4 ? left : room;
    circles.push(...ring(radii.slice(circles.length, circles.length + count), circles, stretch));
  }
  return circles;
}

/** Each comes as near to the hub as the others let it. */
function settled(circles: Circle[]): Circle[] {
  for (let turn = 0; turn < 2; turn += 1) {
    for (const circle of circles) {
      const others = circles.filter((each) => each !== circle);
      for (;;) {
        const distance = Math.hypot(circle.x, circle.y);
        const nearer = { ...circle, x: circle.x * (1 - STEP / distance), y: circle.y * (1 - STEP / distance) };
        if (!clearOfHub(nearer) || !others.every((other) => apart(nearer, other))) break;
        Object.assign(circle, nearer);
      }
    }
  }
  return circles;
}

const clearOfHub = ({ x, y, r }: Circle): boolean => Math.hypot(x, y) >= r + 2 * HUB_RADIUS + GAP;

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
        clearOfHub(one) &&
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

/** Of the lowest home, in pixels: words have one size at any scale. */
const WORDS_BELOW = 36;
export const LARGEST_SCALE = 1.9;

export function fitted(made: Layout, width: number, height: number): View {
  const free = Math.max(1, height - WORDS_BELOW);
  const scale = Math.min(LARGEST_SCALE, width / made.width, free / made.height);
  const [x, y] = [made.left + made.width / 2, made.top + made.height / 2];
  return { scale, x: width / 2 - x * scale, y: free / 2 - y * scale };
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
