"""Regenerates everything Shoal takes from upstream Kubernetes. See README.md beside this file.

    python scripts/generate/run.py

Sources come by `go mod download`, by module name; the versions are in go.mod and `KUBERNETES` below.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from facts import NAME_RULES, SELECTABLE

KUBERNETES = "k8s.io/kubernetes@v1.36.4"
RBAC = "plugin/pkg/auth/authorizer/rbac/bootstrappolicy/testdata"

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
DATA = ROOT / "src/shoal/kinds/data"
FIELDS = ROOT / "src/shoal/objects/protobuf_fields.json"
SAMPLES = {"k8s.io/api": "testdata/HEAD", "k8s.io/apiextensions-apiserver": "pkg/apis/testdata/HEAD"}
GOLDEN = ROOT / "tests/objects/protobuf_golden.json"


def main() -> None:
    kubernetes = module(KUBERNETES)
    tables = go_tables()
    resources = list(discovery(kubernetes / "api/discovery", tables["warnings"]))
    write(DATA / "resources.json", lines(resources))
    write_definitions(kubernetes / "api/openapi-spec/v3")
    write(DATA / "rbac.json", lines(default_rbac(kubernetes / RBAC)))
    served = {group_version(r) for r in resources}
    write_fields(tables, served)
    write_golden(tables["zeros"], served)


def module(name: str) -> Path:
    """The folder of a Go module, downloaded if need be."""
    told = subprocess.run(["go", "mod", "download", "-json", name], cwd=HERE, check=True, capture_output=True)
    return Path(json.loads(told.stdout)["Dir"])


def go_tables() -> dict[str, Any]:
    # One package at a time: the generator may run beside other work.
    env = {**os.environ, "GOFLAGS": "-p=1 -mod=readonly -buildvcs=false"}
    told = subprocess.run(["go", "run", "./fields"], cwd=HERE, check=True, stdout=subprocess.PIPE, env=env)
    return dict(json.loads(told.stdout))


# --- discovery ---


def discovery(folder: Path, warnings: Mapping[str, str]) -> Iterable[dict[str, Any]]:
    """Every built-in resource, in the order aggregated discovery lists groups and versions, core first."""
    yield from resource_list(folder / "api__v1.json", "", "v1", warnings)
    for item in json.loads((folder / "aggregated_v2.json").read_text())["items"]:
        group = item["metadata"]["name"]
        for version in (v["version"] for v in item["versions"]):
            yield from resource_list(folder / f"apis__{group}__{version}.json", group, version, warnings)


def resource_list(path: Path, group: str, version: str, warnings: Mapping[str, str]) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    listed = json.loads(path.read_text())["resources"]
    for entry in listed:
        if "/" not in entry["name"]:
            found[entry["name"]] = resource(group, version, entry, warnings)
    for entry in listed:
        plural, slash, name = entry["name"].partition("/")
        if slash:
            kind = [entry.get("group", group), entry.get("version", version), entry["kind"]]
            found[plural].setdefault("subresources", []).append([name, *kind, sorted(entry["verbs"])])
    return list(found.values())


def resource(group: str, version: str, entry: Mapping[str, Any], warnings: Mapping[str, str]) -> dict[str, Any]:
    plural, kind = entry["name"], entry["kind"]
    out: dict[str, Any] = {"group": group, "version": version, "plural": plural, "kind": kind}
    out |= {"singular": entry["singularName"], "namespaced": entry["namespaced"], "verbs": sorted(entry["verbs"])}
    api_version = f"{group}/{version}" if group else version
    optional = {
        "shortNames": entry.get("shortNames"),
        "categories": entry.get("categories"),
        "storageVersionHash": entry.get("storageVersionHash"),
        "selectable": SELECTABLE.get(f"{group}/{plural}"),
        "nameRule": NAME_RULES.get(f"{group}/{plural}"),
        "deprecated": warnings.get(f"{api_version}/{kind}"),
    }
    return out | {key: value for key, value in optional.items() if value}


def group_version(entry: Mapping[str, Any]) -> str:
    return f"{entry['group']}/{entry['version']}" if entry["group"] else str(entry["version"])


# --- OpenAPI definitions ---


def write_definitions(folder: Path) -> None:
    """One file per package, one definition per line, and an index from kind to definition."""
    schemas = merged_schemas(folder)
    index = {}
    packages: dict[str, dict[str, Any]] = {}
    for name, schema in sorted(schemas.items()):
        packages.setdefault(name.rpartition(".")[0], {})[name] = schema
        for kind in schema.get("x-kubernetes-group-version-kind", ()):
            index[f"{group_version(kind)}/{kind['kind']}"] = name
    target = DATA / "definitions"
    for old in target.glob("*.json"):
        old.unlink()
    for package, definitions in packages.items():
        write(target / f"{package}.json", by_line(definitions))
    write(DATA / "definitions.json", by_line(dict(sorted(index.items()))))


def merged_schemas(folder: Path) -> dict[str, Any]:
    schemas: dict[str, Any] = {}
    for path in sorted(folder.glob("*.json")):
        for name, schema in json.loads(path.read_text()).get("components", {}).get("schemas", {}).items():
            if name.endswith((".meta.v1.DeleteOptions", ".meta.v1.WatchEvent")):
                # These say in each document that they are also of that document's group.
                schema.pop("x-kubernetes-group-version-kind")
            if schemas.setdefault(name, schema) != schema:
                raise SystemExit(f"duplicate definition of {name}")
    return schemas


# --- default RBAC ---


def default_rbac(folder: Path) -> Iterable[dict[str, Any]]:
    for name in ("cluster-roles", "controller-roles", "cluster-role-bindings", "controller-role-bindings",
                 "namespace-roles", "namespace-role-bindings"):  # fmt: skip
        for item in yaml.safe_load((folder / f"{name}.yaml").read_text())["items"]:
            # Aggregated roles say `rules: null` until a controller fills them in.
            yield {key: value for key, value in item.items() if value is not None}


# --- protobuf ---


def write_fields(tables: Mapping[str, Any], served: set[str]) -> None:
    """The tables of the served kinds and of the kinds that belong to every group (`*/DeleteOptions`)."""
    kinds = {}
    for name, message in sorted(tables["kinds"].items()):
        api_version, _, kind = name.rpartition("/")
        if message == f"meta/v1.{kind}":
            kinds[f"*/{kind}"] = message
        elif api_version in served or api_version == "apidiscovery.k8s.io/v2":
            kinds[name] = message
    reached = closure(tables["types"], kinds.values())
    types = by_line({name: tables["types"][name] for name in sorted(reached)})
    write(FIELDS, '{"kinds":' + by_line(dict(sorted(kinds.items()))).rstrip() + ',\n"types":' + types.rstrip() + "}\n")


def closure(types: Mapping[str, list[list[Any]]], names: Iterable[str]) -> set[str]:
    reached: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            used = {field[3] for field in types[name]}
            waiting.extend(used & types.keys())
    return reached


def write_golden(zeros: Mapping[str, Any], served: set[str]) -> None:
    """Upstream's own samples, every field filled, and the empty object of every kind in its stable versions."""
    folders = [module(name) / path for name, path in SAMPLES.items()]
    pairs = []
    for sample in (HERE / "samples.txt").read_text().split():
        text = next(f for folder in folders if (f := folder / f"{sample}.json").exists())
        pairs.append({"protobuf": text.with_suffix(".pb").read_bytes().hex(), "json": json.loads(text.read_text())})
    for name, zero in sorted(zeros.items()):
        api_version, _, kind = name.rpartition("/")
        stable = api_version in served and re.search(r"\bv\d+$", api_version)
        if stable and not kind.endswith(("List", "Options", "Event")):
            pairs.append(zero)
    write(GOLDEN, lines(pairs))


# --- writing ---


def compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def lines(items: Iterable[object]) -> str:
    return "[\n" + ",\n".join(map(compact, items)) + "\n]\n"


def by_line(mapping: Mapping[str, Any]) -> str:
    """A JSON object with one entry per line: diffs show what moved, readers can pick one line."""
    return "{\n" + ",\n".join(f"{compact(key)}:{compact(value)}" for key, value in mapping.items()) + "\n}\n"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


if __name__ == "__main__":
    main()
