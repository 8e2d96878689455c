import type { Line } from "./types";

/** Cuts a stream of text into whole lines of JSON; what is left waits for its end. */
export class Lines {
  private rest = "";

  push(text: string): Line[] {
    const parts = (this.rest + text).split("\n");
    this.rest = parts.pop() ?? "";
    return parts.filter((part) => part !== "").map((part) => JSON.parse(part) as Line);
  }
}
