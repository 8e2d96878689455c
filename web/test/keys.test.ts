import { describe, expect, it } from "vitest";
import { rightFor } from "../src/api/kinds";
import { nextRow } from "../src/ui/table";

describe("rows by keys", () => {
  it("begin with the first in sight", () => {
    expect(nextRow("ArrowDown", null, 40, 10, 1000)).toBe(40);
    expect(nextRow("ArrowUp", null, 0, 10, 1000)).toBe(0);
  });
  it("go on one by one, by pages and to the ends, and not beyond", () => {
    expect(nextRow("ArrowDown", 3, 0, 10, 1000)).toBe(4);
    expect(nextRow("ArrowUp", 0, 0, 10, 1000)).toBe(0);
    expect(nextRow("PageDown", 995, 0, 10, 1000)).toBe(999);
    expect(nextRow("PageUp", 25, 0, 10, 1000)).toBe(15);
    expect(nextRow("End", 3, 0, 10, 1000)).toBe(999);
    expect(nextRow("Home", 3, 0, 10, 1000)).toBe(0);
  });
  it("leave other keys alone", () => {
    expect(nextRow("Enter", 3, 0, 10, 1000)).toBeUndefined();
    expect(nextRow("Tab", null, 0, 10, 1000)).toBeUndefined();
  });
});

describe("a missing right", () => {
  it("is named as a role would name it", () => {
    expect(rightFor("workers")).toBe("list, watch workers.infrastructure.cluster.x-k8s.io");
    expect(rightFor("events")).toBe("list, watch events");
    expect(rightFor("costs")).toBe("get /metrics");
    expect(rightFor("default/east:nodes")).toBe("create managedclusters/token, and a role in spec.access of default/east");
  });
});
