"""`shoal plan`: what applying manifests would place where, and which replicas would move. Changes nothing."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import yaml

from shoal.assemble.plan import Change, plan_objects
from shoal.cli.asking import AskingError, ask, hub_options
from shoal.cli.printing import table, tell
from shoal.client.requests import Client
from shoal.objects.errors import StatusError

Object = dict[str, Any]


@click.command(name="plan")
@click.option(
    "-f", "--filename", required=True, help="Manifests of workloads, Placements and Clusters; - is standard input."
)
@click.option("-n", "--namespace", default="default", show_default=True, help="Of objects that do not name theirs.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@hub_options
def command(filename: str, namespace: str, output: str, kubeconfig: Path | None, data_dir: Path | None) -> None:
    """What applying manifests would place where, and which replicas would move. Nothing is changed."""
    given = [_in_namespace(obj, namespace) for obj in read(filename)]

    async def question(client: Client) -> list[Change]:
        return await plan_objects(client, given)

    try:
        changes = ask(kubeconfig, data_dir, question)
    except StatusError as error:
        raise AskingError(str(error)) from None
    said = [{**asdict(one), "added": one.added, "removed": one.removed, "moved": one.moved} for one in changes]
    tell(said, text(changes), output)


def read(filename: str) -> list[Object]:
    try:
        content = sys.stdin.read() if filename == "-" else Path(filename).read_text()
        found = [obj for obj in yaml.safe_load_all(content) if obj]
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise AskingError(f"{filename} cannot be read: {error}") from None
    found = [item for obj in found for item in _items(obj)]
    for obj in found:
        if not isinstance(obj, dict) or not obj.get("kind") or not (obj.get("metadata") or {}).get("name"):
            raise AskingError(
                f"{filename} has something that is not a named object", "each needs kind and metadata.name"
            )
    return found


def text(changes: list[Change]) -> list[str]:
    if not changes:
        return ["nothing would change"]
    lines: list[str] = []
    for one in changes:
        by = f" by Placement {one.placement}" if one.placement else ""
        lines.append(f"{one.kind} {one.namespace}/{one.name}{by}")
        names = sorted({*one.before, *one.after})
        rows = [[name, str(one.before.get(name, 0)), str(one.after.get(name, 0))] for name in names]
        lines += [f"  {line}" for line in table([["CLUSTER", "NOW", "THEN"], *rows])]
        if one.unplaced:
            lines.append(f"  {one.unplaced} without a place")
    sums = [sum(getattr(one, name) for one in changes) for name in ("added", "moved", "removed", "unplaced")]
    return [*lines, "", "{} added, {} moved, {} removed, {} without a place".format(*sums)]


def _items(obj: Object) -> list[Object]:
    is_list = isinstance(obj, dict) and str(obj.get("kind", "")).endswith("List") and "items" in obj
    return list(obj["items"]) if is_list else [obj]


def _in_namespace(obj: Object, namespace: str) -> Object:
    return {**obj, "metadata": {"namespace": namespace, **obj["metadata"]}}
