import { describe, expect, it } from "vitest";
import { fitted, homeAt, HUB_RADIUS, layout, neighbour, siteAt, SITE_RADIUS } from "../src/map/layout";
import type { Home } from "../src/model/fleet";

const home = (name: string, sites: number): Home => ({
  key: name, title: name, sort: "worker", phase: "Running", tone: "good", note: "",
  sites: Array.from({ length: sites }, (_, at) => ({ key: `${name}/${at}`, name: `${at}`, title: `${at}`, phase: "Running", tone: "good" as const, nodes: 1, problem: "", link: ["managedclusters", name, `${at}`] as [string, string, string] })),
});

describe("the picture", () => {
  it.each([[[0, 1, 3]], [[500, 500]], [Array.from({ length: 64 }, (_, at) => at % 20)], [[1000]]])("lets nothing touch: %j", (sizes) => {
    const made = layout(sizes.map((size, at) => home(`w${at}`, size)), 1.6);
    for (const a of made.homes) {
      expect(Math.hypot(a.x, a.y)).toBeGreaterThan(a.r + HUB_RADIUS);
      for (const b of made.homes) if (a !== b) expect(Math.hypot(a.x - b.x, a.y - b.y)).toBeGreaterThan(a.r + b.r);
    }
    for (const site of made.sites) expect(Math.hypot(site.x - site.home.x, site.y - site.home.y) + SITE_RADIUS).toBeLessThan(site.home.r);
    for (const home of made.homes) {
      const mine = made.sites.filter((each) => each.home === home).slice(0, 30);
      for (const a of mine) for (const b of mine) if (a !== b) expect(Math.hypot(a.x - b.x, a.y - b.y)).toBeGreaterThan(2 * SITE_RADIUS);
    }
  });
  it("is the same for the same fleet", () => {
    const homes = [home("a", 7), home("b", 3)];
    expect(layout(homes, 2)).toEqual(layout(homes, 2));
  });
  it("fits into its view, and is not blown up", () => {
    const large = layout([home("a", 500), home("b", 500)], 1.6);
    const view = fitted(large, 800, 500);
    expect(large.width * view.scale).toBeLessThanOrEqual(800);
    expect(large.height * view.scale).toBeLessThanOrEqual(500);
    expect(fitted(layout([home("a", 1)], 1.6), 4000, 4000).scale).toBeLessThan(2);
  });
  it("finds what is pointed at", () => {
    const made = layout([home("a", 20)], 1.6);
    const site = made.sites[7]!;
    expect(siteAt(made, site.x + 2, site.y, 10)).toBe(site);
    expect(siteAt(made, 0, 0, 10)).toBeUndefined();
    expect(homeAt(made, made.homes[0]!.x, made.homes[0]!.y)?.home.key).toBe("a");
  });
  it("is walked with arrows, and there is always a way back", () => {
    const made = layout([home("a", 40), home("b", 40)], 1.6);
    const start = made.sites[0]!;
    const right = neighbour(made, start, 1, 0);
    expect(right.x).toBeGreaterThan(start.x);
    expect(neighbour(made, right, -1, 0).x).toBeLessThan(right.x);
    const last = [...made.sites].sort((a, b) => b.x - a.x)[0]!;
    expect(neighbour(made, last, 1, 0)).toBe(last);
  });
});
