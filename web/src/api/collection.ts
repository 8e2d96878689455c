import type { KubeObject, Line, Status } from "./types";

export type Access = "loading" | "ready" | "forbidden" | "unserved" | "failed";

const INITIAL_END = "k8s.io/initial-events-end";

/** A copy of one kind, kept by the lines of its watch. */
export class Collection {
  objects = new Map<string, KubeObject>();
  access: Access = "loading";
  message = "";
  /** The resourceVersion a cut watch goes on from; empty: everything is asked for anew. */
  since = "";
  text = "";
  private arriving: Map<string, KubeObject> | null = new Map();

  /** A new watch begins. Without a place to go on from, what is shown stays until all has come anew. */
  begin(): void {
    if (!this.since) this.arriving = new Map();
  }

  /** Whether anything that is shown has changed. */
  take(line: Line): boolean {
    if (line.type === "ERROR") return this.refused(line.object as Status);
    if (line.type === "TEXT") {
      this.text = String(line.object ?? "");
      this.access = "ready";
      return true;
    }
    if (line.type === "END") return false;
    const obj = line.object as KubeObject;
    const version = obj.metadata.resourceVersion ?? "";
    if (line.type === "BOOKMARK") {
      const complete = obj.metadata.annotations?.[INITIAL_END] === "true";
      if (complete && this.arriving) {
        this.objects = this.arriving;
        this.arriving = null;
      }
      if (!this.arriving) this.since = version;
      this.access = this.arriving ? this.access : "ready";
      return complete;
    }
    const into = this.arriving ?? this.objects;
    const key = `${obj.metadata.namespace ?? ""}/${obj.metadata.name}`;
    if (line.type === "DELETED") into.delete(key);
    else into.set(key, obj);
    if (!this.arriving) this.since = version;
    return !this.arriving;
  }

  private refused(status: Status): boolean {
    this.message = status.message ?? "";
    this.since = "";
    if (status.code === 410) return false;
    this.access = status.code === 403 ? "forbidden" : status.code === 404 ? "unserved" : "failed";
    // What one may no longer see is not shown from memory; what cannot be reached just now stays.
    if (this.access !== "failed") this.objects = new Map();
    return true;
  }

  get(namespace: string, name: string): KubeObject | undefined {
    return this.objects.get(`${namespace}/${name}`);
  }

  list(): KubeObject[] {
    return [...this.objects.values()];
  }
}
