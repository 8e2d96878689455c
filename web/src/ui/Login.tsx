import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { tokenFrom, type Who, whoami } from "../api/session";

export function Login({ said, onLogin }: { said: string; onLogin: (token: string, who: Who) => void }): JSX.Element {
  const [text, setText] = useState("");
  const [problem, setProblem] = useState(said);
  const [busy, setBusy] = useState(false);
  const [over, setOver] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => field.current?.focus(), []);
  useEffect(() => void (document.title = "Log in · Shoal"), []);

  const enter = async (given: string): Promise<void> => {
    setBusy(true);
    setProblem("");
    try {
      const token = tokenFrom(given);
      onLogin(token, await whoami(token));
    } catch (error) {
      setProblem((error as Error).message);
    } finally {
      setBusy(false);
    }
  };
  const take = async (file: File | undefined): Promise<void> => {
    setOver(false);
    if (file) await enter(await file.text());
  };

  return (
    <main class="login" id="main">
      <form
        class={over ? "over" : undefined}
        onSubmit={(event) => { event.preventDefault(); void enter(text); }}
        onDragOver={(event) => { event.preventDefault(); setOver(true); }}
        onDragLeave={() => setOver(false)}
        onDrop={(event) => { event.preventDefault(); void take(event.dataTransfer?.files[0]); }}
      >
        <img src="./icon.svg" alt="" width="48" height="48" />
        <h1>Shoal</h1>
        <p class="soft">The dashboard shows what your token may read.</p>
        <label for="token">Token, or a kubeconfig with one</label>
        <textarea
          id="token"
          ref={field}
          class="secret"
          rows={3}
          autocomplete="off"
          spellcheck={false}
          value={text}
          aria-invalid={problem !== ""}
          aria-describedby="problem where"
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={(event) => { if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); void enter(text); } }}
        />
        <p id="problem" class="problem" role="alert">{problem}</p>
        <div class="row">
          <button type="submit" class="primary" disabled={busy || text.trim() === ""}>{busy ? "Logging in…" : "Log in"}</button>
          <label class="file">
            Choose a kubeconfig
            <input type="file" class="hidden" onChange={(event) => void take(event.currentTarget.files?.[0])} />
          </label>
        </div>
        <p id="where" class="soft">
          The administrator's kubeconfig is in the data directory of the hub: <code>~/.local/share/shoal/kubeconfig</code>.
          Other users can log in with the output of <code>kubectl create token NAME</code>. The token is kept in this browser tab until it is closed.
        </p>
      </form>
    </main>
  );
}
