import type { ComponentChildren, JSX } from "preact";
import { useRef } from "preact/hooks";
import type { Collection } from "../api/collection";
import { COSTS, kindOf, rightFor } from "../api/kinds";
import type { KubeObject } from "../api/types";
import type { Share } from "../model/fleet";
import type { Tone } from "../model/phases";
import { useKey } from "./hooks";

export function Badge({ tone, children }: { tone: Tone; children: ComponentChildren }): JSX.Element {
  return (
    <span class={`badge ${tone}`}>
      <i class="mark" aria-hidden="true" />
      {children}
    </span>
  );
}

/** NAMESPACE/NAME, with the weight on the name. */
export function Name({ of }: { of: KubeObject }): JSX.Element {
  const { namespace, name } = of.metadata;
  return <>{namespace && <span class="space-of">{namespace}/</span>}{name}</>;
}

export function Bar({ share, label, text }: { share?: Share; label: string; text: string }): JSX.Element {
  if (!share || share.total === 0) return <span class="soft">unknown</span>;
  const percent = Math.round(share.share * 100);
  return (
    <span class="bar">
      <span class="meter" role="meter" aria-label={label} aria-valuemin={0} aria-valuemax={100} aria-valuenow={Math.min(100, percent)}>
        <i style={{ width: `${Math.min(100, percent)}%` }} />
      </span>
      <span class="number">{percent} %</span>
      <span class="soft">{text}</span>
    </span>
  );
}

/** Why data is missing: permissions, or a hub that does not answer. */
export function Refusals({ of }: { of: [id: string, collection: Collection][] }): JSX.Element | null {
  const forbidden = of.filter(([, each]) => each.access === "forbidden");
  const failed = of.filter(([, each]) => each.access === "failed");
  if (forbidden.length + failed.length === 0) return null;
  return (
    <section class="notes" role="status" aria-label="Missing permissions and errors">
      {forbidden.length > 0 && (
        <div class="note">
          <strong>403 Forbidden: you may not read {forbidden.length === 1 ? titleOf(forbidden[0]![0]) : "all data of this page"}</strong>
          <dl>
            {forbidden.map(([id]) => <div key={id}><dt>{titleOf(id)}</dt><dd>missing permission: <code>{rightFor(id)}</code></dd></div>)}
          </dl>
          <details>
            <summary>Messages of the hub</summary>
            <ul>{forbidden.map(([id, each]) => <li key={id}>{each.message}</li>)}</ul>
          </details>
          <p class="soft">An administrator can grant these permissions. See <code>examples/dashboard-viewer.yaml</code>.</p>
        </div>
      )}
      {failed.map(([id, each]) => (
        <div class="note failed" key={id}><strong>{titleOf(id)} cannot be loaded</strong> <span class="soft">{each.message}</span></div>
      ))}
    </section>
  );
}

const titleOf = (id: string): string => kindOf(id)?.plural ?? (id === COSTS ? "costs" : id.split(":").at(-1)!);

export function Empty({ title, children }: { title: string; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="empty">
      <img src="./icon.svg" alt="" width="44" height="44" />
      <strong>{title}</strong>
      {children && <p class="soft">{children}</p>}
    </div>
  );
}

/** A number that is none where nothing may be seen. */
export const told = (collection: Collection, value: ComponentChildren): ComponentChildren =>
  collection.access === "forbidden" ? "–" : value;

export function Tile({ label, value, note }: { label: string; value: ComponentChildren; note?: ComponentChildren }): JSX.Element {
  return (
    <div class="tile">
      <dt>{label}</dt>
      <dd>
        {value}{" "}
        {note && <small class="soft">{note}</small>}
      </dd>
    </div>
  );
}

/** Reached with the key / from everywhere. */
export function Search({ value, label, onInput }: { value: string; label: string; onInput: (text: string) => void }): JSX.Element {
  const field = useRef<HTMLInputElement>(null);
  useKey("/", () => field.current?.focus());
  return (
    <input
      type="search"
      ref={field}
      aria-keyshortcuts="/"
      class="search"
      placeholder={label}
      aria-label={label}
      value={value}
      onInput={(event) => onInput(event.currentTarget.value)}
    />
  );
}
