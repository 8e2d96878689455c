import { describe, expect, it } from "vitest";
import { dump, parse } from "../src/model/yaml";

describe("writing", () => {
  it("writes nested objects and lists in block style", () => {
    expect(dump({ a: { b: [1, { c: "x", d: null }], e: {} }, f: [], g: true })).toBe(
      "a:\n  b:\n  - 1\n  - c: x\n    d: null\n  e: {}\nf: []\ng: true\n",
    );
  });
  it("quotes what would be read as something else", () => {
    const quoted = ["true", "No", "1", "", "x: y", "0x1f", "- a", "1e3", "1.5", ".5", "12:30", "2026-11-16T08:05:02Z", "2026-01-01", " a", "a ", "a:", "a #b", "*", "&a", "é", "~", ".inf", "#", "{a}", "'a'", "%a", "@a", "a\tb", "22e1"];
    const plain = ["v1.36.4", "400Gi", "500m", "given to worker-1", "a:b", "a#b", "x=y, z", "1 of 2 ready", "0 of 2 fit", "(none)", "a 'b'"];
    for (const text of quoted) expect(dump({ a: text })).toBe(`a: ${JSON.stringify(text)}\n`);
    for (const text of plain) expect(dump({ a: text })).toBe(`a: ${text}\n`);
  });
  it("writes several lines as a block, where that keeps them", () => {
    expect(dump({ a: { text: "one\n\ntwo\n" } })).toBe("a:\n  text: |\n    one\n\n    two\n");
    expect(dump({ text: "one\ntwo" })).toBe("text: |-\n  one\n  two\n");
    expect(dump({ text: " one\ntwo" })).toBe('text: " one\\ntwo"\n');
  });
});

describe("reading", () => {
  it("reads what it writes", () => {
    const value = { a: { b: ["x", { c: "y", d: "z" }], e: {} }, f: [], g: "a b", h: "k: v" };
    expect(parse(dump(value))).toEqual(value);
  });
  it("reads a kubeconfig as kubectl writes it", () => {
    const text = "apiVersion: v1\nkind: Config\nusers:\n- name: me\n  user:\n    token: abc # mine\ncurrent-context: 'a'\n";
    expect(parse(text)).toEqual({ apiVersion: "v1", kind: "Config", users: [{ name: "me", user: { token: "abc" } }], "current-context": "a" });
  });
  it("reads JSON, and lists that are indented", () => {
    expect(parse('{"a": [1]}')).toEqual({ a: [1] });
    expect(parse("a:\n  - b\n  -\n    c: d\n")).toEqual({ a: ["b", { c: "d" }] });
  });
  it("refuses what it does not know, by the line", () => {
    expect(() => parse("a: &anchor b\n")).toThrow("line 1");
    expect(() => parse("a: b\n  c: d\n")).toThrow("line 2");
    expect(() => parse("a: b\nnonsense\n")).toThrow("line 2");
  });
});
