import { condition, type KubeObject } from "../api/types";

/** How well something is, in five tones: each has a colour and a shape, so that colour alone never says it. */
export type Tone = "good" | "busy" | "waiting" | "bad" | "unknown";

const TONES: Record<string, Tone> = {
  Running: "good", Ready: "good", True: "good",
  Provisioning: "busy", Upgrading: "busy", Scheduled: "busy", Terminating: "busy",
  Pending: "waiting",
  Failed: "bad", False: "bad", Lost: "bad",
  Unknown: "unknown",
};

export const toneOf = (phase: string): Tone => TONES[phase] ?? "unknown";

/** All phases of a ManagedCluster, worst first: the order of legends and sorted tables. */
export const PHASES = ["Failed", "Unknown", "Pending", "Scheduled", "Provisioning", "Upgrading", "Terminating", "Running"];

export const phaseOf = (obj: KubeObject): string =>
  obj.metadata.deletionTimestamp ? "Terminating" : String(obj.status?.phase ?? "Pending");

/** What stands in the way, in one sentence. */
export function problemOf(obj: KubeObject): string {
  const errors = obj.status?.errors as { message: string }[] | undefined;
  return errors?.at(-1)?.message ?? "";
}

export const readyOf = (obj: KubeObject): string => condition(obj, "Ready")?.status ?? "Unknown";
