import { createContext } from "preact";
import { useContext, useEffect, useLayoutEffect, useMemo, useReducer, useState } from "preact/hooks";
import type { Live } from "../api/live";

export const LiveContext = createContext<Live | null>(null);

/** The page's data; whoever calls this is drawn again when it changes. */
export function useLive(): Live {
  const live = useContext(LiveContext);
  if (!live) throw new Error("outside of the dashboard");
  const [, redraw] = useReducer((count: number) => count + 1, 0);
  useLayoutEffect(() => live.subscribe(() => redraw(undefined as never)), [live]);
  return live;
}

/** Computed from objects, kept until some of them change. */
export function useDerived<T>(live: Live, make: () => T, extra: unknown[] = []): T {
  return useMemo(make, [live.revision, ...extra]);
}

/** The time, for ages: looked at every few seconds. */
export function useNow(every = 5_000): number {
  const [now, set] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => set(Date.now()), every);
    return () => clearInterval(timer);
  }, [every]);
  return now;
}

/** What somebody typed may be no escape at all. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function useRoute(): string[] {
  const read = (): string[] => location.hash.replace(/^#\/?/, "").split("/").map(decoded);
  const [route, set] = useState(read);
  useLayoutEffect(() => {
    const changed = (): void => set(read());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}

export const hrefOf = (link: readonly string[]): string => `#/o/${link.map((part) => encodeURIComponent(part || "-")).join("/")}`;

export function useTitle(title: string): void {
  useLayoutEffect(() => {
    document.title = `${title} · Shoal`;
  }, [title]);
}

/** Keys that work wherever the focus is, except while somebody writes: from the moment on that the page is seen. */
export function useKey(key: string, work: () => void): void {
  useLayoutEffect(() => {
    const pressed = (event: KeyboardEvent): void => {
      const at = event.target as HTMLElement;
      if (event.key !== key || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
      if (at.matches?.("input, textarea, select")) return;
      event.preventDefault();
      work();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  });
}
