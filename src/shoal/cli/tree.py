"""`shoal tree`: owners and owned objects, also in the clusters that have copies of an object."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shoal.cli.options.hub import CommandError, call_hub, hub_options
from shoal.cli.printers import format_table, output_option, print_output
from shoal.client.rest import Client
from shoal.client.restmapper import NoKindMatchError
from shoal.objects.duration import human_age
from shoal.objects.errors import NotFound

if TYPE_CHECKING:
    from shoal.assemble.commands.tree import Tree, TreeNode


@click.command(name="tree")
@click.argument("kind")
@click.argument("name")
@click.option("-n", "--namespace", default="default", show_default=True)
@click.option("--cluster", default="", metavar="NAME", help="Workload Cluster that contains the object. [the hub]")
@output_option(wide=True)
@hub_options
def command(
    kind: str,
    name: str,
    namespace: str,
    cluster: str,
    output: str,
    kubeconfig: Path | None,
    data_dir: Path | None,
) -> None:
    """Prints the owners and dependents of the object NAME, on the hub and in the clusters that have copies of it.

    Copies in hosted clusters are read as the user that you are at the hub, those in other clusters with the kubeconfigs
    that the hub stores for them. A star marks the object.
    """

    async def request(client: Client) -> Tree:
        from shoal.assemble.commands.tree import NoKubeconfig, cluster_tree, hub_tree  # noqa: PLC0415  the syncer's code loads for long

        if not cluster:
            return await hub_tree(client, kind, namespace, name)
        try:
            return await cluster_tree(client, cluster, kind, namespace, name)
        except NoKubeconfig as error:
            raise CommandError(f"cannot read cluster {cluster}: {error}") from None

    try:
        tree = call_hub(kubeconfig, data_dir, request, "listing objects")
    except NoKindMatchError as error:
        raise CommandError(str(error), error.hint) from None
    except NotFound as error:
        raise CommandError(str(error), "-n selects another namespace; shoal status shows the fleet") from None
    print_output(asdict(tree), tree_lines(tree, time.time(), wide=output == "wide"), output)
    if output in ("text", "wide"):
        for note in tree.notes:
            click.echo(f"note: {note}", err=True)


def tree_lines(tree: Tree, now: float, *, wide: bool = False) -> list[str]:
    head = ["OBJECT", "WHERE", "READY", "AGE", *(["NAMESPACE", "REASON"] if wide else [])]
    return format_table([head, *(_row(line, one, now, wide) for line, one in _node_lines(tree.top, "", ""))])


def _node_lines(node: TreeNode, first: str, rest: str) -> Iterator[tuple[str, TreeNode]]:
    """Yields each node with the text of its line."""
    mark = "*" if node.asked else ""
    how = f"{node.how} " if node.how else ""
    yield f"{first}{how}{node.kind}/{node.name}{mark}", node
    for number, child in enumerate(node.children, 1):
        last = number == len(node.children)
        yield from _node_lines(child, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))


def _row(line: str, node: TreeNode, now: float, wide: bool) -> list[str]:
    age = human_age(node.created, now) if node.created else "-"
    row = [line, node.cluster or "hub", node.ready or "-", age]
    return [*row, node.namespace or "-", node.reason or "-"] if wide else row
