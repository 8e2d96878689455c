import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Live } from "../src/api/live";
import type { Line, Watch } from "../src/api/types";

/** The hub's side of one stream. */
class Hub {
  asked: Record<string, Watch>[] = [];
  private to: ReadableStreamDefaultController<Uint8Array> | null = null;

  constructor(private readonly status = 200) {
    vi.stubGlobal("fetch", async (_: string, options: RequestInit) => {
      this.asked.push((JSON.parse(options.body as string) as { watches: Record<string, Watch> }).watches);
      const body = new ReadableStream<Uint8Array>({ start: (controller) => void (this.to = controller) });
      options.signal?.addEventListener("abort", () => {
        try {
          this.to?.error(new Error("aborted"));
        } catch { /* it has ended already */ }
      });
      return new Response(this.status === 200 ? body : null, { status: this.status });
    });
  }

  tell(...lines: Line[]): void {
    this.to!.enqueue(new TextEncoder().encode(lines.map((each) => `${JSON.stringify(each)}\n`).join("")));
  }

  cut(): void {
    this.to!.close();
  }
}

const workers = (version: string): Line[] => [
  { id: "workers", type: "ADDED", object: { metadata: { name: "w1", namespace: "s", resourceVersion: version } } },
  { id: "workers", type: "BOOKMARK", object: { metadata: { name: "", resourceVersion: version, annotations: { "k8s.io/initial-events-end": "true" } } } },
];

describe("the stream", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });
  const settle = (ms = 1): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);

  it("asks for everything, then goes on from where it was cut", async () => {
    const hub = new Hub();
    const live = new Live("t", (work) => work());
    live.start();
    await settle();
    expect(hub.asked[0]!.workers).toEqual({ path: "/apis/infrastructure.cluster.x-k8s.io/v1alpha1/workers" });
    hub.tell(...workers("7"));
    await settle();
    expect(live.connection).toBe("live");
    expect(live.get("workers").list()).toHaveLength(1);
    hub.cut();
    await settle(1_000);
    expect(hub.asked[1]!.workers!.since).toBe("7");
    expect(hub.asked[1]!.events!.since).toBeUndefined();
    live.stop();
  });

  it("is opened anew for a watch that ended, and soon for one whose history is gone", async () => {
    const hub = new Hub();
    const live = new Live("t", (work) => work());
    live.start();
    await settle();
    hub.tell({ id: "jobs", type: "ERROR", object: { code: 404 } }, ...workers("7"));
    await settle(5_000);
    expect(hub.asked).toHaveLength(1);
    hub.tell({ id: "workers", type: "ERROR", object: { code: 410 } });
    await settle(500);
    expect(hub.asked).toHaveLength(2);
    expect(hub.asked[1]!.workers!.since).toBeUndefined();
    expect(live.connection).toBe("live");
    live.stop();
  });

  it("looks into a cluster when it is asked to, and forgets it afterwards", async () => {
    const hub = new Hub();
    const live = new Live("t", (work) => work());
    live.start();
    await settle();
    live.look(["default/east"]);
    await settle();
    expect(hub.asked[1]!["default/east:nodes"]).toEqual({ path: "/api/v1/nodes", inside: "default/east" });
    live.look([]);
    await settle();
    expect(Object.keys(hub.asked[2]!).filter((id) => id.includes("east"))).toEqual([]);
    live.stop();
  });

  it("says when nobody is there, tries again, and less and less often", async () => {
    const fails = vi.fn(async () => Promise.reject(new Error("no")));
    vi.stubGlobal("fetch", fails);
    const live = new Live("t", (work) => work());
    live.start();
    await settle(100);
    expect(live.connection).toBe("lost");
    await settle(60_000);
    expect(fails.mock.calls.length).toBeGreaterThan(4);
    expect(fails.mock.calls.length).toBeLessThan(12);
    live.stop();
  });

  it("ends when the token is no longer good", async () => {
    const hub = new Hub();
    const live = new Live("t", (work) => work());
    const refused = vi.fn();
    live.onUnauthorized = refused;
    live.start();
    await settle();
    hub.tell({ id: "default/east:nodes", type: "ERROR", object: { code: 401 } });
    await settle();
    expect(refused).not.toHaveBeenCalled();
    hub.tell({ id: "workers", type: "ERROR", object: { code: 401 } });
    await settle(60_000);
    expect(refused).toHaveBeenCalled();
    expect(hub.asked).toHaveLength(1);
  });
});
