import type { ComponentChildren, JSX } from "preact";
import type { Collection } from "../api/collection";
import { kindOf } from "../api/kinds";
import type { Share } from "../model/fleet";
import type { Tone } from "../model/phases";

export function Badge({ tone, children }: { tone: Tone; children: ComponentChildren }): JSX.Element {
  return (
    <span class={`badge ${tone}`}>
      <i class="mark" aria-hidden="true" />
      {children}
    </span>
  );
}

export function Bar({ share, label, text }: { share?: Share; label: string; text: string }): JSX.Element {
  if (!share || share.total === 0) return <span class="soft">not known</span>;
  const percent = Math.round(share.share * 100);
  return (
    <span class="bar">
      <meter min={0} max={100} high={90} value={Math.min(100, percent)} aria-label={`${label} ${percent} percent`} />
      <span class="number">{percent} %</span>
      <span class="soft">{text}</span>
    </span>
  );
}

/** Why there is nothing to see: rights, a kind that is not served, or a hub that does not answer. */
export function Refusals({ of }: { of: [id: string, collection: Collection][] }): JSX.Element | null {
  const refused = of.filter(([, each]) => each.access === "forbidden" || each.access === "failed");
  if (refused.length === 0) return null;
  return (
    <div class="notes">
      {refused.map(([id, each]) => (
        <p class="note" role="status" key={id}>
          <Badge tone={each.access === "forbidden" ? "waiting" : "bad"}>
            {each.access === "forbidden" ? "403 Forbidden" : "Not answered"}
          </Badge>
          <span>
            {each.access === "forbidden" ? "You may not see " : "The hub did not show "}
            {kindOf(id)?.plural ?? id.split(":").at(-1)}: <span class="soft">{each.message}</span>
          </span>
        </p>
      ))}
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="empty">
      <strong>{title}</strong>
      {children && <p class="soft">{children}</p>}
    </div>
  );
}

export function Tile({ label, value, note }: { label: string; value: ComponentChildren; note?: ComponentChildren }): JSX.Element {
  return (
    <div class="tile">
      <dt>{label}</dt>
      <dd>
        {value}
        {note && <small class="soft">{note}</small>}
      </dd>
    </div>
  );
}

export function Search({ value, label, onInput }: { value: string; label: string; onInput: (text: string) => void }): JSX.Element {
  return (
    <input
      type="search"
      class="search"
      placeholder={label}
      aria-label={label}
      value={value}
      onInput={(event) => onInput(event.currentTarget.value)}
    />
  );
}
