import type { ComponentChildren, JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Who } from "../api/session";
import { useLive } from "./hooks";

const PAGES: [path: string, title: string][] = [
  ["", "Fleet"], ["clusters", "Clusters"], ["placements", "Placement"], ["nodes", "Nodes"], ["sync", "Sync"], ["events", "Events"],
];
const STATES = { connecting: "Connecting", live: "Live", lost: "Not connected" } as const;
const TONES = { connecting: "busy", live: "good", lost: "bad" } as const;

export type Theme = "auto" | "light" | "dark";
const SIGNS: Record<Theme, string> = { auto: "◐", light: "○", dark: "●" };
const NEXT: Record<Theme, Theme> = { auto: "light", light: "dark", dark: "auto" };

interface Props {
  page: string;
  place: string;
  who: Who;
  theme: Theme;
  onTheme: (theme: Theme) => void;
  onLogout: () => void;
  children: ComponentChildren;
}

/** A service account by its namespace and name. */
const shortly = (name: string): string => name.replace(/^system:serviceaccount:([^:]+):/, "$1/");

export function Shell({ page, place, who, theme, onTheme, onLogout, children }: Props): JSX.Element {
  const live = useLive();
  const main = useRef<HTMLElement>(null);
  const first = useRef(true);
  useLayoutEffect(() => {
    // A new page is read from its beginning; the first one leaves the focus where the browser put it.
    if (!first.current) main.current?.focus();
    first.current = false;
  }, [place]);
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); main.current?.focus(); }}>Skip to the content</a>
      <header class="top">
        <a class="brand" href="#/"><img src="./icon.svg" alt="" width="26" height="26" />Shoal</a>
        <nav aria-label="Pages">
          {PAGES.map(([path, title]) => (
            <a key={path} href={`#/${path}`} aria-current={path === page ? "page" : undefined}>{title}</a>
          ))}
        </nav>
        <span class={`badge ${TONES[live.connection]}`} role="status"><i class="mark" aria-hidden="true" />{STATES[live.connection]}</span>
        <button type="button" class="quiet" onClick={() => onTheme(NEXT[theme])} aria-label={`Colours: ${theme}. Change`}>
          <span aria-hidden="true">{SIGNS[theme]}</span> {theme === "auto" ? "Auto" : theme === "light" ? "Light" : "Dark"}
        </button>
        <span class="who" title={[who.name, ...who.groups].join("\n")}>{shortly(who.name)}</span>
        <button type="button" class="quiet" onClick={onLogout}>Log out</button>
      </header>
      <main id="main" ref={main} tabIndex={-1}>{children}</main>
    </>
  );
}
