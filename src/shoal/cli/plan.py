"""`shoal plan`: what applying manifests would place where, which replicas would move, and which nodes would be bought.
Changes nothing.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shoal.cli.asking import AskingError, ask, hub_options
from shoal.cli.manifests import in_namespace
from shoal.cli.manifests import read as read
from shoal.cli.printing import output_option, table, tell
from shoal.client.requests import Client
from shoal.objects.errors import StatusError

if TYPE_CHECKING:
    from shoal.assemble.plan import Change
    from shoal.assemble.plan_nodes import ClusterNodes

Object = dict[str, Any]


@click.command(name="plan")
@click.option(
    "-f", "--filename", required=True, help="Manifests of workloads, Placements and Clusters; - is standard input."
)
@click.option("-n", "--namespace", default="default", show_default=True, help="Of objects that do not name theirs.")
@output_option()
@hub_options
def command(filename: str, namespace: str, output: str, kubeconfig: Path | None, data_dir: Path | None) -> None:
    """What applying manifests would place where, which replicas would move, which nodes would be bought for them, and
    what the fleet costs an hour. Nothing is changed."""
    given = [in_namespace(obj, namespace) for obj in read(filename)]

    async def question(client: Client) -> tuple[list[Change], list[ClusterNodes]]:
        # Placement and provisioning load more slowly than help may take.
        from shoal.assemble.plan import plan_objects  # noqa: PLC0415
        from shoal.assemble.plan_nodes import plan_nodes  # noqa: PLC0415

        changes = await plan_objects(client, given)
        return changes, await plan_nodes(client, given, changes)

    try:
        changes, nodes = ask(kubeconfig, data_dir, question, "planning")
    except StatusError as error:
        raise AskingError(str(error)) from None
    said = [{**asdict(one), "added": one.added, "removed": one.removed, "moved": one.moved} for one in changes]
    said += [_nodes(one) for one in nodes]
    tell(said, [*text(changes), *node_text(nodes)], output)


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


def node_text(nodes: list[ClusterNodes]) -> list[str]:
    """Empty if no cluster has nodes that can be bought."""
    lines: list[str] = []
    for one in nodes:
        found = one.found
        if found is None:
            lines.append(f"Nodes of {one.cluster}: not known, {one.problem}")
            continue
        if found.bought or found.emptied or found.unplaced:
            lines.append(f"Nodes of {one.cluster}")
        if found.bought:
            rows = [[each.pool, each.type, str(each.pods), f"{each.price:.4f}"] for each in found.bought]
            lines += [f"  {line}" for line in table([["NODEPOOL", "BUYS", "PODS", "AN HOUR"], *rows])]
        if found.emptied:
            lines.append(f"  would be empty and go: {', '.join(found.emptied)}")
        if found.unplaced:
            lines.append(f"  {found.unplaced} pods would get no node")
        if found.unpriced:
            lines.append(f"  {found.unpriced} nodes of {one.cluster} have no price")
    known = [one.found for one in nodes if one.found is not None]
    if known:
        before, after = sum(one.before for one in known), sum(one.after for one in known)
        lines.append(f"the fleet costs {before:.4f} an hour now, {after:.4f} then")
    return ["", *lines] if lines else []


def _nodes(one: ClusterNodes) -> Object:
    found = asdict(one.found) if one.found is not None else {"problem": one.problem}
    return {"kind": "Nodes", "cluster": one.cluster, **found}
