import { type JSX, render } from "preact";
import { useEffect, useErrorBoundary, useState } from "preact/hooks";
import { Live } from "./api/live";
import { forget, keep, kept, type Who, whoami } from "./api/session";
import { Clusters } from "./pages/Clusters";
import { Detail } from "./pages/Detail";
import { Events } from "./pages/Events";
import { Fleet } from "./pages/Fleet";
import { Nodes } from "./pages/Nodes";
import { Placements } from "./pages/Placements";
import { Sync } from "./pages/Sync";
import "./style.css";
import { LiveContext, useRoute } from "./ui/hooks";
import { Login } from "./ui/Login";
import { Empty } from "./ui/parts";
import { Shell, type Theme } from "./ui/Shell";

const THEME = "shoal-theme";
const UPDATE_MS = 120;

function App(): JSX.Element {
  const [session, setSession] = useState<{ live: Live; who: Who } | null>(null);
  const [said, setSaid] = useState("");
  const [waiting, setWaiting] = useState(kept() !== "");
  const [theme, setTheme] = useState<Theme>((localStorage.getItem(THEME) as Theme | null) ?? "auto");
  const dark = useDark();

  // While drawing, not after: the map takes its colours from it.
  document.documentElement.dataset.theme = theme === "auto" ? (dark ? "dark" : "light") : theme;
  useEffect(() => localStorage.setItem(THEME, theme), [theme]);

  const leave = (why: string): void => {
    forget();
    setSession((now) => {
      now?.live.stop();
      return null;
    });
    setSaid(why);
  };
  const enter = (token: string, who: Who): void => {
    keep(token);
    const live = new Live(token, (work) => void setTimeout(work, UPDATE_MS));
    live.onUnauthorized = () => leave("The hub no longer accepts the token. Log in again.");
    live.start();
    setSession({ live, who });
  };
  useEffect(() => {
    const token = kept();
    if (!token) return;
    whoami(token)
      .then((who) => enter(token, who), (error: Error) => leave(error.message))
      .finally(() => setWaiting(false));
  }, []);

  if (waiting) return <main class="login"><Empty title="Logging in…" /></main>;
  if (!session) return <Login key={said} said={said} onLogin={enter} />;
  return (
    <LiveContext.Provider value={session.live}>
      <Pages who={session.who} theme={theme} shownTheme={`${theme}${dark}`} onTheme={setTheme} onLogout={() => leave("")} />
    </LiveContext.Provider>
  );
}

interface PagesProps {
  who: Who;
  theme: Theme;
  shownTheme: string;
  onTheme: (theme: Theme) => void;
  onLogout: () => void;
}

function Pages({ who, theme, shownTheme, onTheme, onLogout }: PagesProps): JSX.Element {
  const [page = "", ...rest] = useRoute();
  const real = (part: string | undefined): string => (part === undefined || part === "-" ? "" : part);
  const pages: Record<string, () => JSX.Element> = {
    "": () => <Fleet theme={shownTheme} />,
    clusters: () => <Clusters />,
    placements: () => <Placements />,
    nodes: () => <Nodes inside={rest.length === 2 ? rest.join("/") : ""} />,
    sync: () => <Sync />,
    events: () => <Events />,
    o: () => <Detail kindId={real(rest[0])} namespace={real(rest[1])} name={real(rest[2])} />,
  };
  const show = pages[page] ?? (() => <Empty title="Page not found" />);
  const place = [page, ...rest].join("/");
  return (
    <Shell page={page} place={place} who={who} theme={theme} onTheme={onTheme} onLogout={onLogout}>
      <Guard place={place}>{show()}</Guard>
    </Shell>
  );
}

/** One page that cannot be drawn leaves the others. */
function Guard({ place, children }: { place: string; children: JSX.Element }): JSX.Element {
  const [error, reset] = useErrorBoundary();
  useEffect(reset, [place]);
  if (!error) return children;
  return <Empty title="The page cannot be shown">{String((error as Error).message ?? error)}. The other pages still work.</Empty>;
}

function useDark(): boolean {
  const query = matchMedia("(prefers-color-scheme: dark)");
  const [dark, set] = useState(query.matches);
  useEffect(() => {
    const changed = (): void => set(query.matches);
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, []);
  return dark;
}

render(<App />, document.getElementById("app")!);
