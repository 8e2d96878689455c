const SUFFIXES: Record<string, number> = {
  n: 1e-9, u: 1e-6, m: 1e-3, "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18,
  Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60,
};

/** A quantity as Kubernetes writes it; what cannot be read counts for nothing. */
export function quantity(text: unknown): number {
  const found = /^([+-]?[\d.]+(?:[eE][+-]?\d+)?)([a-zA-Z]*)$/.exec(String(text ?? "").trim());
  const factor = found ? SUFFIXES[found[2]!] : undefined;
  return found && factor !== undefined ? Number(found[1]) * factor : 0;
}

export function cores(amount: number): string {
  if (amount === 0) return "0";
  return amount < 1 ? `${Math.round(amount * 1000)}m` : trimmed(amount);
}

export function bytes(amount: number): string {
  for (const [unit, size] of [["Ti", 2 ** 40], ["Gi", 2 ** 30], ["Mi", 2 ** 20]] as const) {
    if (amount >= size) return `${trimmed(amount / size)} ${unit}`;
  }
  return `${Math.round(amount / 1024)} Ki`;
}

export const trimmed = (amount: number): string => String(Math.round(amount * 10) / 10);

export const money = (amount: number): string => (amount === 0 ? "0" : amount.toFixed(amount < 10 ? 3 : 2));

export function ago(time: string | undefined, now: number): string {
  if (!time) return "";
  const seconds = Math.max(0, Math.round((now - Date.parse(time)) / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}
