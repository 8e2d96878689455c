/** YAML as far as it is needed here: objects of the API are written, kubeconfigs are read. Kubeconfigs are plain block
 * style, or JSON; whatever else comes is refused with the line it is in. */

/** What any reader takes for the same text: no sign of YAML's own, and nothing that could be a number or a time. */
const PLAIN = /^[A-Za-z0-9_./(](?:[\x21-\x7e ]*[^\s:])?$/;
const SIGNS = /: | #/;
const NUMBER = /^\.?\d[\d_.,:eExXoOa-fA-F+-]*$|^\d{4}-\d\d?-\d\d?[Tt ]|^\.(?:inf|nan)$/i;
const WORDS = new Set(["true", "false", "null", "yes", "no", "on", "off", "y", "n", "~", ""]);

export function dump(value: unknown, indent = 0): string {
  const pad = " ".repeat(indent);
  if (Array.isArray(value)) {
    if (value.length === 0) return `${pad}[]\n`;
    return value.map((item) => `${pad}- ${nested(item, indent + 2).trimStart()}`).join("");
  }
  if (value !== null && typeof value === "object") {
    const entries = Object.entries(value).filter(([, each]) => each !== undefined);
    if (entries.length === 0) return `${pad}{}\n`;
    return entries.map(([key, each]) => `${pad}${text(key)}:${after(each, indent)}`).join("");
  }
  return `${pad}${scalar(value, indent)}\n`;
}

const isEmpty = (value: object): boolean => Object.keys(value).length === 0;

function nested(item: unknown, indent: number): string {
  return dump(item, indent);
}

function after(value: unknown, indent: number): string {
  if (Array.isArray(value)) return value.length ? `\n${dump(value, indent)}` : " []\n";
  if (value !== null && typeof value === "object") return isEmpty(value) ? " {}\n" : `\n${dump(value, indent + 2)}`;
  return ` ${scalar(value, indent)}\n`;
}

function scalar(value: unknown, indent: number): string {
  if (typeof value !== "string") return String(value);
  if (value.includes("\n") && !/^\s|\t|[ ]\n/.test(value)) {
    const pad = " ".repeat(indent + 2);
    const lines = value.replace(/\n$/, "").split("\n");
    return `|${value.endsWith("\n") ? "" : "-"}\n${lines.map((line) => (line ? pad + line : "")).join("\n")}`;
  }
  return text(value);
}

function text(value: string): string {
  const plain = PLAIN.test(value) && !SIGNS.test(value) && !NUMBER.test(value) && !WORDS.has(value.toLowerCase());
  return plain ? value : JSON.stringify(value);
}

interface Row {
  indent: number;
  text: string;
  number: number;
}

export function parse(source: string): unknown {
  const trimmed = source.trim();
  if (trimmed.startsWith("{")) return JSON.parse(trimmed);
  const rows: Row[] = [];
  source.split(/\r?\n/).forEach((line, at) => {
    const body = line.trim();
    if (body === "" || body.startsWith("#") || body === "---" || body === "...") return;
    rows.push({ indent: line.length - line.trimStart().length, text: body, number: at + 1 });
  });
  const [value, end] = block(rows, 0, rows[0]?.indent ?? 0);
  if (end < rows.length) throw refusal(rows[end]!);
  return value;
}

const refusal = (row: Row): Error => new Error(`line ${row.number} cannot be read: ${row.text.slice(0, 24)}`);

const KEY = /^("(?:[^"\\]|\\.)*"|'[^']*'|[^\s"'#{[&*!|>%@`-][^:#]*|-[^\s:][^:]*)\s*:(?:\s+(.*))?$/;

function block(rows: Row[], from: number, indent: number): [unknown, number] {
  const first = rows[from];
  if (!first) return [null, from];
  return first.text === "-" || first.text.startsWith("- ") ? sequence(rows, from, indent) : mapping(rows, from, indent);
}

function mapping(rows: Row[], from: number, indent: number): [Record<string, unknown>, number] {
  const made: Record<string, unknown> = {};
  let at = from;
  while (at < rows.length && rows[at]!.indent === indent) {
    const row = rows[at]!;
    const found = KEY.exec(row.text);
    if (!found) throw refusal(row);
    const key = String(value(found[1]!, row));
    const rest = found[2]?.trim() ?? "";
    at += 1;
    if (rest === "") {
      const next = rows[at];
      // A sequence may stand as far left as its key.
      const below = next && (next.indent > indent || (next.indent === indent && /^-(\s|$)/.test(next.text)));
      [made[key], at] = below ? block(rows, at, next.indent) : [null, at];
    } else if (/^[|>][-+]?$/.test(rest)) {
      const lines: string[] = [];
      while (at < rows.length && rows[at]!.indent > indent) lines.push(rows[at++]!.text);
      made[key] = lines.join(rest.startsWith("|") ? "\n" : " ");
    } else {
      made[key] = value(rest, row);
    }
  }
  return [made, at];
}

function sequence(rows: Row[], from: number, indent: number): [unknown[], number] {
  const made: unknown[] = [];
  let at = from;
  while (at < rows.length && rows[at]!.indent === indent && /^-(\s|$)/.test(rows[at]!.text)) {
    const row = rows[at]!;
    const rest = row.text.slice(1).trimStart();
    let item: unknown;
    if (rest === "") {
      const next = rows[at + 1];
      [item, at] = next && next.indent > indent ? block(rows, at + 1, next.indent) : [null, at + 1];
    } else if (KEY.test(rest)) {
      // The first key of a mapping stands behind the dash: the others are below it.
      const inner = indent + (row.text.length - rest.length);
      rows[at] = { indent: inner, text: rest, number: row.number };
      [item, at] = mapping(rows, at, inner);
    } else {
      [item, at] = [value(rest, row), at + 1];
    }
    made.push(item);
  }
  return [made, at];
}

function value(given: string, row: Row): unknown {
  if (given.startsWith('"')) {
    const end = /^"(?:[^"\\]|\\.)*"/.exec(given);
    if (!end) throw refusal(row);
    return JSON.parse(end[0]);
  }
  if (given.startsWith("'")) return given.slice(1, given.lastIndexOf("'")).replaceAll("''", "'");
  const plain = given.replace(/\s+#.*$/, "");
  if (plain === "{}") return {};
  if (plain === "[]") return [];
  if (/^[{[&*!]/.test(plain)) throw refusal(row);
  if (plain === "null" || plain === "~") return null;
  if (plain === "true" || plain === "false") return plain === "true";
  return plain;
}
