"""`shoal plan`: what applying manifests would place where, which replicas would move, and which nodes would be bought.
Changes nothing.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shoal.cli.manifests import read_manifest as read_manifest
from shoal.cli.manifests import with_default_namespace
from shoal.cli.options.hub import CommandError, call_hub, hub_options
from shoal.cli.printers import format_table, output_option, print_output
from shoal.client.rest import Client
from shoal.objects.errors import StatusError

if TYPE_CHECKING:
    from shoal.assemble.commands.plan import PlacementChange
    from shoal.assemble.commands.plan_nodes import ClusterNodePlan

Object = dict[str, Any]


@click.command(name="plan")
@click.option(
    "-f", "--filename", required=True, help="Manifests of workloads, Placements and Clusters; - means standard input."
)
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of objects that specify none.")
@output_option()
@hub_options
def command(filename: str, namespace: str, output: str, kubeconfig: Path | None, data_dir: Path | None) -> None:
    """Previews where applied manifests would be placed, which replicas would move, which nodes would be provisioned,
    and the cost of the fleet per hour. Changes nothing."""
    manifests = [with_default_namespace(obj, namespace) for obj in read_manifest(filename)]

    async def request(client: Client) -> tuple[list[PlacementChange], list[ClusterNodePlan]]:
        # Placement and provisioning load more slowly than help may take.
        from shoal.assemble.commands.plan import plan_objects  # noqa: PLC0415
        from shoal.assemble.commands.plan_nodes import plan_nodes  # noqa: PLC0415

        changes = await plan_objects(client, manifests)
        return changes, await plan_nodes(client, manifests, changes)

    try:
        changes, nodes = call_hub(kubeconfig, data_dir, request, "planning")
    except StatusError as error:
        raise CommandError(str(error)) from None
    printed = [
        {**asdict(one), "added": one.added_count, "removed": one.removed_count, "moved": one.moved_count}
        for one in changes
    ]
    printed += [node_plan_object(one) for one in nodes]
    print_output(printed, [*change_lines(changes), *node_lines(nodes)], output)


def change_lines(changes: list[PlacementChange]) -> list[str]:
    if not changes:
        return ["nothing would change"]
    lines: list[str] = []
    for one in changes:
        by = f" by {'Placement' if one.namespace else 'ClusterPlacement'} {one.placement}" if one.placement else ""
        lines.append(f"{one.kind} {f'{one.namespace}/' if one.namespace else ''}{one.name}{by}")
        names = sorted({*one.before, *one.after})
        rows = [[name, str(one.before.get(name, 0)), str(one.after.get(name, 0))] for name in names]
        lines += [f"  {line}" for line in format_table([["CLUSTER", "NOW", "THEN"], *rows])]
        if one.unplaced:
            lines.append(f"  {one.unplaced} unplaced")
    counts = ("added_count", "moved_count", "removed_count", "unplaced")
    sums = [sum(getattr(one, count) for one in changes) for count in counts]
    return [*lines, "", "{} added, {} moved, {} removed, {} unplaced".format(*sums)]


def node_lines(nodes: list[ClusterNodePlan]) -> list[str]:
    """Empty if no cluster has nodes that can be bought."""
    lines: list[str] = []
    for one in nodes:
        preview = one.preview
        if preview is None:
            lines.append(f"Nodes of {one.cluster}: unknown: {one.error}")
            continue
        if preview.node_claims or preview.removed_nodes or preview.unschedulable_pods:
            lines.append(f"Nodes of {one.cluster}")
        if preview.node_claims:
            rows = [
                [each.pool, each.instance_type, str(each.pods), f"{each.price:.4f}"] for each in preview.node_claims
            ]
            lines += [f"  {line}" for line in format_table([["NODEPOOL", "BUYS", "PODS", "COST/HR"], *rows])]
        if preview.removed_nodes:
            lines.append(f"  would be removed as empty: {', '.join(preview.removed_nodes)}")
        if preview.unschedulable_pods:
            lines.append(f"  {preview.unschedulable_pods} pods would be unschedulable")
        if preview.unpriced_nodes:
            lines.append(f"  {preview.unpriced_nodes} nodes of {one.cluster} have no price")
    previews = [one.preview for one in nodes if one.preview is not None]
    if previews:
        before, after = sum(one.cost_before for one in previews), sum(one.cost_after for one in previews)
        lines.append(f"cost of the fleet per hour: {before:.4f} now, {after:.4f} then")
    return ["", *lines] if lines else []


def node_plan_object(one: ClusterNodePlan) -> Object:
    """The keys are those of `shoal plan -o json`; scripts read them."""
    preview = one.preview
    if preview is None:
        return {"kind": "Nodes", "cluster": one.cluster, "problem": one.error}
    bought = [
        {"pool": claim.pool, "type": claim.instance_type, "pods": claim.pods, "price": claim.price}
        for claim in preview.node_claims
    ]
    return {
        "kind": "Nodes",
        "cluster": one.cluster,
        "bought": bought,
        "emptied": preview.removed_nodes,
        "unplaced": preview.unschedulable_pods,
        "before": preview.cost_before,
        "after": preview.cost_after,
        "unpriced": preview.unpriced_nodes,
    }
