import { Collection } from "./collection";
import { COSTS, INSIDE, insideId, KINDS } from "./kinds";
import { Lines } from "./lines";
import type { Line, Watch } from "./types";

export type Connection = "connecting" | "live" | "lost";

const SILENCE_MS = 65_000;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 15_000;
const AGAIN_MS = 20_000;
const REFUSED_AGAIN_MS = 120_000;
const PLANNED = "planned";
export const MOST_INSIDE = 12;

/** Everything the page knows, from one stream that is opened anew, from where it was, whenever it is cut or the
 * page wants to look at something else. */
export class Live {
  readonly collections = new Map<string, Collection>();
  connection: Connection = "connecting";
  onUnauthorized: () => void = () => undefined;
  /** Grows with every change: what is computed from objects is kept until it does. */
  revision = 0;
  private readonly watches = new Map<string, Watch>();
  private inside: string[] = [];
  private readonly listeners = new Set<() => void>();
  private abort: AbortController | null = null;
  private pause = FIRST_PAUSE_MS;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private scheduled = false;
  private stopped = false;

  constructor(
    private readonly token: string,
    private readonly frame: (work: () => void) => void = (work) => void setTimeout(work, 50),
  ) {
    for (const kind of KINDS) this.watch(kind.id, { path: kind.path });
    this.watch(COSTS, { path: "/metrics" });
  }

  get(id: string): Collection {
    const found = this.collections.get(id);
    if (found) return found;
    const made = new Collection();
    this.collections.set(id, made);
    return made;
  }

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }

  start(): void {
    void this.run();
  }

  stop(): void {
    this.stopped = true;
    clearTimeout(this.timer);
    this.abort?.abort();
  }

  /** The hosted clusters whose nodes are looked at: the last ones asked for, and no more than a few. */
  look(clusters: string[]): void {
    const wanted = clusters.slice(-MOST_INSIDE);
    if (wanted.join() === this.inside.join()) return;
    for (const gone of this.inside.filter((each) => !wanted.includes(each))) this.leave(gone);
    for (const cluster of wanted.filter((each) => !this.inside.includes(each))) this.enter(cluster);
    this.inside = wanted;
    this.again();
  }

  private enter(cluster: string): void {
    for (const [what, path] of Object.entries(INSIDE)) {
      this.watch(insideId(cluster, what as keyof typeof INSIDE), { path, inside: cluster });
    }
    this.watch(insideId(cluster, "costs"), { path: "/metrics", inside: cluster });
  }

  private leave(cluster: string): void {
    for (const id of [...this.watches.keys()].filter((each) => each.startsWith(`${cluster}:`))) {
      this.watches.delete(id);
      this.collections.delete(id);
    }
  }

  private watch(id: string, watch: Watch): void {
    this.watches.set(id, watch);
    this.get(id);
  }

  private again(): void {
    clearTimeout(this.timer);
    this.pause = FIRST_PAUSE_MS;
    this.abort?.abort(PLANNED);
    this.abort = null;
    this.timer = setTimeout(() => void this.run(), 0);
  }

  private async run(): Promise<void> {
    if (this.stopped) return;
    const abort = new AbortController();
    this.abort = abort;
    let wait = 0;
    try {
      await this.read(abort);
    } catch {
      if (abort.signal.reason !== PLANNED) {
        wait = this.pause;
        this.pause = Math.min(this.pause * 2, LONGEST_PAUSE_MS);
      }
    }
    if (this.stopped || this.abort !== abort) return;
    if (wait) this.say("lost");
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.run(), wait);
  }

  private async read(abort: AbortController): Promise<void> {
    const asked: Record<string, Watch> = {};
    for (const [id, watch] of this.watches) {
      const collection = this.get(id);
      collection.begin();
      asked[id] = collection.since ? { ...watch, since: collection.since } : watch;
    }
    const answer = await fetch("./stream", {
      method: "POST",
      headers: { Authorization: `Bearer ${this.token}`, "Content-Type": "application/json" },
      body: JSON.stringify({ watches: asked }),
      signal: abort.signal,
      cache: "no-store",
      credentials: "omit",
    });
    if (answer.status === 401) return this.unauthorized();
    if (!answer.ok || !answer.body) throw new Error(`the hub answered ${answer.status}`);
    this.say("live");
    await this.follow(answer.body.getReader(), abort);
  }

  private async follow(reader: ReadableStreamDefaultReader<Uint8Array>, abort: AbortController): Promise<void> {
    const lines = new Lines();
    const decoder = new TextDecoder();
    let watchdog = setTimeout(() => abort.abort(), SILENCE_MS);
    let later: ReturnType<typeof setTimeout> | undefined;
    let soonest = Infinity;
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done || abort.signal.aborted) return;
        clearTimeout(watchdog);
        watchdog = setTimeout(() => abort.abort(), SILENCE_MS);
        this.pause = FIRST_PAUSE_MS;
        for (const line of lines.push(decoder.decode(value, { stream: true }))) {
          const wait = this.take(line);
          // A watch that ended or was refused is asked for again with all the others: the stream has no second way in.
          if (wait !== undefined && wait < soonest) {
            clearTimeout(later);
            soonest = wait;
            later = setTimeout(() => abort.abort(PLANNED), wait);
          }
        }
      }
    } finally {
      clearTimeout(watchdog);
      clearTimeout(later);
    }
  }

  /** How soon the stream has to be opened anew because of this line. */
  private take(line: Line): number | undefined {
    if (line.type === "PING" || !line.id) return undefined;
    const collection = this.collections.get(line.id);
    if (!collection) return undefined;
    const known = collection.since !== "";
    if (collection.take(line)) this.changed();
    if (line.type === "END") return 100;
    // The hub learns kinds from its clusters: one it did not serve may be there now.
    if (line.id === "negotiated" && known && line.type !== "BOOKMARK" && this.somethingUnserved()) return 1_500;
    if (line.type !== "ERROR") return undefined;
    const code = (line.object as { code?: number } | undefined)?.code;
    if (code === 401 && !this.watches.get(line.id)?.inside) {
      this.unauthorized();
      return undefined;
    }
    return code === 410 ? 100 : code === 403 || code === 404 ? REFUSED_AGAIN_MS : AGAIN_MS;
  }

  private somethingUnserved(): boolean {
    return KINDS.some((kind) => this.get(kind.id).access === "unserved");
  }

  private unauthorized(): void {
    this.stop();
    this.onUnauthorized();
  }

  private say(connection: Connection): void {
    if (this.connection === connection) return;
    this.connection = connection;
    this.changed();
  }

  private changed(): void {
    this.revision += 1;
    if (this.scheduled) return;
    this.scheduled = true;
    this.frame(() => {
      this.scheduled = false;
      for (const listener of this.listeners) listener();
    });
  }
}
