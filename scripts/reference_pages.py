"""Writes docs/reference/: a page for each group of Shoal's kinds, from their definitions, and one of built-in kinds.

    .venv/bin/python scripts/reference_pages.py

`tests/test_reference_pages.py` fails where a page is not what this would write. Commands and flags are written by
`command_line_page.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from shoal.apiserver.registry import builtins
from shoal.kinds.shoal_crds import crd_manifests

Object = dict[str, Any]

PAGES = Path(__file__).parent.parent / "docs" / "reference"
WRITTEN = "This page is written by `scripts/reference_pages.py` from the definitions themselves."
TITLES = {
    "core.shoal.dev": ("Logical clusters", "../hosted-clusters.md"),
    "infrastructure.cluster.x-k8s.io": ("The fleet: ManagedClusters, Workers and embedded machines", "../fleet.md"),
    "infrastructure.cluster-k8s.io": ("Clusters of kind", "../kind.md"),
    "placement.shoal.dev": ("Placement", "../placement.md"),
    "workload.kcp.dev": ("Workload Clusters", "../sync.md"),
    "apiresource.kcp.dev": ("APIs of workload Clusters", "../sync.md"),
    "cluster.x-k8s.io": ("Cluster API", "../cluster-api.md"),
    "karpenter.sh": ("Provisioning: NodePools and NodeClaims", "../provisioning.md"),
    "karpenter.cluster.x-k8s.io": ("Provisioning: the node class of Cluster API", "../provisioning.md"),
}
"""By group, in the order of the index: what it is about, and the page that explains it."""
MEANT = frozenset("&<>[]()|*_`\\{}")
LIMITS = {
    "minimum": "≥ {}",
    "maximum": "≤ {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "maxProperties": "at most {} keys",
    "pattern": "matches {}",
}


def pages() -> dict[str, str]:
    """The text of each page by its name."""
    groups: dict[str, list[tuple[str, Object]]] = {}
    for profile, where in (("root", "the hub and management clusters"), ("cluster", "hosted clusters")):
        for text in crd_manifests(profile):
            spec = yaml.safe_load(text)["spec"]
            groups.setdefault(spec["group"], []).append((where, spec))
    assert set(groups) == set(TITLES), "a group without a title, or a title without a group"
    made = {f"{group}.md": "\n".join(_group(group, groups[group])) + "\n" for group in TITLES}
    made["built-in-kinds.md"] = "\n".join(_built_in()) + "\n"
    made["README.md"] = "\n".join(_index(groups)) + "\n"
    return made


def _index(groups: dict[str, list[tuple[str, Object]]]) -> Iterator[str]:
    yield from ("# Reference", "", WRITTEN, "", "| kind | group and version | scope | served by |", "|---|---|---|---|")
    for group in TITLES:
        for where, spec in groups[group]:
            kind, versions = spec["names"]["kind"], ", ".join(each["name"] for each in spec["versions"])
            yield f"| [{kind}]({group}.md#{kind.lower()}) | {group}/{versions} | {spec['scope']} | {where} |"
    yield from ("", "Further pages:", "")
    yield "- [built-in kinds](built-in-kinds.md): what of Kubernetes' own is served, in each profile"
    yield "- [commands and flags](../command-line.md)"
    yield "- [metrics](../observability.md#metrics)"
    yield "- [what is refused, and what is not done](../scope.md)"
    yield "\n`kubectl explain KIND.FIELD` says the same at the terminal, of the server it asks."


def _group(group: str, found: list[tuple[str, Object]]) -> Iterator[str]:
    title, explained = TITLES[group]
    yield from (f"# {title}", "", f"Group `{group}`. {WRITTEN} [What it is for]({explained}).")
    for where, spec in found:
        names = spec["names"]
        short = f", short {', '.join(f'`{each}`' for each in names['shortNames'])}" if names.get("shortNames") else ""
        yield from ("", f"## {names['kind']}", "")
        yield f"`{names['plural']}.{group}`{short}; {spec['scope'].lower()}; served by {where}."
        for version in spec["versions"]:
            yield from _version(version)


def _version(version: Object) -> Iterator[str]:
    schema = version["schema"]["openAPIV3Schema"]
    if schema.get("description"):
        yield from ("", _text(schema["description"]))
    marks = [] if version.get("storage") else ["not stored"]
    marks += ["deprecated"] if version.get("deprecated") else []
    subresources = ", ".join(f"`{name}`" for name in version.get("subresources") or ())
    said = f"Version **{version['name']}**" + (f" ({', '.join(marks)})" if marks else "")
    yield from ("", said + (f"; subresources {subresources}." if subresources else "."), "")
    rows = list(_fields(schema, ""))
    if rows:
        yield from ("| field | type | |", "|---|---|---|", *rows)
    rules = list(_rules(schema, ""))
    if rules:
        yield from ("", "Rules:", "", *rules)


def _fields(schema: Object, path: str) -> Iterator[str]:
    required = set(schema.get("required") or ())
    for name, inner in (schema.get("properties") or {}).items():
        if not path and name in ("apiVersion", "kind", "metadata"):
            continue
        at = f"{path}.{name}" if path else name
        said = [_text(inner.get("description", ""))]
        if name in required:
            said.append("Required.")
        if "default" in inner:
            said.append(
                f"Default `{yaml.safe_dump(inner['default'], default_flow_style=True, width=1000).split(chr(10))[0]}`."
            )
        if inner.get("enum"):
            said.append("One of " + ", ".join(f"`{each}`" if each != "" else "empty" for each in inner["enum"]) + ".")
        limits = [
            text.format(_code(str(inner[key])) if key == "pattern" else inner[key])
            for key, text in LIMITS.items()
            if key in inner
        ]
        if limits:
            said.append((", ".join(limits) + ".").capitalize() if "pattern" not in inner else ", ".join(limits) + ".")
        yield f"| `{at}` | {_type(inner)} | {_cell(' '.join(filter(None, said)))} |"
        yield from _below(inner, at)


def _below(schema: Object, at: str) -> Iterator[str]:
    if schema.get("type") == "array":
        yield from _below(schema["items"], f"{at}[]")
        return
    yield from _fields(schema, at)
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        yield from _below(extra, f"{at}.*")


def _type(schema: Object) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    kind = str(schema.get("type", "any"))
    if kind == "array":
        return f"list of {_type(schema['items'])}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"map of {_type(schema['additionalProperties'])}"
    if kind == "object" and schema.get("x-kubernetes-preserve-unknown-fields"):
        return "any object"
    return f"{kind} ({schema['format']})" if schema.get("format") in ("date-time", "int64") else kind


def _rules(schema: Object, path: str) -> Iterator[str]:
    for rule in schema.get("x-kubernetes-validations") or ():
        said = f" — {_text(rule['message'])}" if rule.get("message") else ""
        yield f"- {f'`{path}`: ' if path else ''}{_code(_text(rule['rule']))}{said}"
    for name, inner in (schema.get("properties") or {}).items():
        yield from _rules(inner, f"{path}.{name}" if path else name)
    if isinstance(schema.get("items"), dict):
        yield from _rules(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _rules(schema["additionalProperties"], f"{path}.*")


def _built_in() -> Iterator[str]:
    yield from ("# Built-in kinds", "", f"What of Kubernetes' own API is served. {WRITTEN}")
    yield "Fields, defaults and validation are upstream's; where they are not, [scope.md](../scope.md) says so."
    hub = {(each.group, each.version, each.plural) for each in builtins.profile_resources("hub")}
    yield from (
        "",
        "| group and version | kind | resource | scope | profile | subresources |",
        "|---|---|---|---|---|---|",
    )
    found = sorted(builtins.profile_resources("cluster"), key=lambda each: (each.group, each.version, each.plural))
    for each in found:
        both = (each.group, each.version, each.plural) in hub
        more = [*(["status"] if each.status else []), *(["scale"] if each.scale else []), *sorted(each.subresources)]
        scope = "Namespaced" if each.namespaced else "Cluster"
        names = f"`{each.plural}`" + (f" ({', '.join(each.short_names)})" if each.short_names else "")
        profile = "hub, cluster" if both else "cluster"
        yield f"| {each.api_version} | {each.kind} | {names} | {scope} | {profile} | {', '.join(more)} |"


def _text(text: str) -> str:
    return " ".join(str(text).split())


def _code(text: str) -> str:
    """An expression, whose brackets and bars mean nothing to Markdown."""
    return "<code>" + "".join(f"&#{ord(each)};" if each in MEANT else each for each in text) + "</code>"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGES.mkdir(exist_ok=True)
    for name, text in pages().items():
        (PAGES / name).write_text(text)
