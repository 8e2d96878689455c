"""The built-in kinds, each with a valid object to begin with."""

from __future__ import annotations

from collections.abc import Iterator

from shoal.kinds.builtin_schemas import builtin_schema, schema_name
from shoal.kinds.catalogue import BuiltinResource, profile_builtins
from tests.apiserver.kind_samples import samples
from tests.faults.growth.cases import Case, Group, Step, compact, send
from tests.faults.growth.fields import Object, least
from tests.faults.growth.kinds import Growth, Target
from tests.serving import widget_definition


def kinds() -> list[BuiltinResource]:
    """What is kept comes first: only that can be read, changed and deleted."""
    found = [builtin for builtin in profile_builtins("cluster") if "create" in builtin.verbs]
    return sorted(found, key=lambda builtin: ("delete" not in builtin.verbs, builtin.plural != "configmaps"))


def collection_of(builtin: BuiltinResource) -> str:
    root = f"/apis/{builtin.api_version}" if builtin.group else "/api/v1"
    return f"{root}/namespaces/default/{builtin.plural}" if builtin.namespaced else f"{root}/{builtin.plural}"


def sample_of(builtin: BuiltinResource, name: str) -> Object:
    """A valid object of the kind, or for reviews the smallest that its schema allows."""
    found, whole = samples(), f"{builtin.plural}.{builtin.version}.{builtin.group}"
    body = found.get(whole) or found.get(f"{builtin.plural}.{builtin.group}".strip("."))
    if builtin.plural == "customresourcedefinitions":
        return definition_of(name)
    if body is None:
        body = least(builtin_schema(schema_name(builtin.group, builtin.version, builtin.kind)))
        body.setdefault("spec", {})
    if builtin.plural == "apiservices":
        body["spec"]["version"] = f"v1{name}"
        name = f"v1{name}.example.net"
    if builtin.plural == "ipaddresses":
        name = f"10.20.0.{int(name[-2:], 16) % 250 if name != 'base' else 2}" if name != "grown" else "10.20.0.3"
    return {"apiVersion": builtin.api_version, "kind": builtin.kind, **body, "metadata": {"name": name}}


def definition_of(name: str) -> Object:
    made = widget_definition()
    made["metadata"]["name"] = f"{name}s.example.com"
    made["spec"]["names"] = {"plural": f"{name}s", "kind": name.capitalize()}
    return made


def target_of(builtin: BuiltinResource, name: str) -> Target:
    definition = schema_name(builtin.group, builtin.version, builtin.kind)
    kept, base, collection = "delete" in builtin.verbs, sample_of(builtin, "base"), collection_of(builtin)

    def setup() -> Iterator[Step]:
        if kept:
            yield send("base", "POST", collection, compact(base))

    return Target(
        group=Group(name, setup),
        collection=collection,
        schema=builtin_schema(definition),
        owner=definition,
        sample=lambda name: sample_of(builtin, name),
        base=base,
        kept=kept,
        status=any(sub.name == "status" for sub in builtin.subresources),
    )


def builtin_cases() -> Iterator[Case]:
    seen: set[str] = set()
    names: set[str] = set()
    for builtin in kinds():
        name = f"{builtin.plural}.{builtin.group}".strip(".")
        if name in names:
            name = f"{builtin.plural}.{builtin.version}.{builtin.group}"
        names.add(name)
        yield from Growth(target_of(builtin, name), seen).cases()
