import { describe, expect, it } from "vitest";
import { Collection } from "../src/api/collection";
import { Lines } from "../src/api/lines";
import type { Line } from "../src/api/types";

const line = (type: Line["type"], name: string, version: string): Line => ({ id: "x", type, object: { metadata: { name, resourceVersion: version } } });
const complete = (version: string): Line => ({
  id: "x", type: "BOOKMARK", object: { metadata: { name: "", resourceVersion: version, annotations: { "k8s.io/initial-events-end": "true" } } },
});
const names = (collection: Collection): string[] => collection.list().map((each) => each.metadata.name);

describe("lines", () => {
  it("come whole, however they are cut", () => {
    const lines = new Lines();
    expect(lines.push('{"type":"PI')).toEqual([]);
    expect(lines.push('NG"}\n\n{"type":"END"}\n{')).toEqual([{ type: "PING" }, { type: "END" }]);
  });
});

describe("a collection", () => {
  it("shows nothing of a list before all of it has come", () => {
    const found = new Collection();
    found.begin();
    expect(found.take(line("ADDED", "a", "1"))).toBe(false);
    expect([names(found), found.access]).toEqual([[], "loading"]);
    expect(found.take(complete("5"))).toBe(true);
    expect([names(found), found.access, found.since]).toEqual([["a"], "ready", "5"]);
  });
  it("follows changes, and goes on from them when it is cut", () => {
    const found = new Collection();
    found.take(complete("1"));
    found.take(line("ADDED", "a", "2"));
    found.take(line("ADDED", "b", "3"));
    found.take(line("DELETED", "a", "4"));
    expect([names(found), found.since]).toEqual([["b"], "4"]);
    found.begin();
    found.take(line("MODIFIED", "b", "6"));
    expect([names(found), found.since]).toEqual([["b"], "6"]);
  });
  it("keeps what it shows while history is gone and all comes anew", () => {
    const found = new Collection();
    found.take(complete("1"));
    found.take(line("ADDED", "a", "2"));
    found.take({ id: "x", type: "ERROR", object: { code: 410 } });
    found.begin();
    found.take(line("ADDED", "b", "9"));
    expect(names(found)).toEqual(["a"]);
    found.take(complete("9"));
    expect(names(found)).toEqual(["b"]);
  });
  it("forgets what may no longer be seen, and not what does not answer", () => {
    const found = new Collection();
    found.take(complete("1"));
    found.take(line("ADDED", "a", "2"));
    found.take({ id: "x", type: "ERROR", object: { code: 503, message: "later" } });
    expect([names(found), found.access, found.message]).toEqual([["a"], "failed", "later"]);
    found.take({ id: "x", type: "ERROR", object: { code: 403, message: "no" } });
    expect([names(found), found.access, found.since]).toEqual([[], "forbidden", ""]);
    found.take({ id: "x", type: "ERROR", object: { code: 404 } });
    expect(found.access).toBe("unserved");
  });
});
