"""`shoal tree`: owners and owned objects, also in the clusters that have copies of an object."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shoal.cli.asking import AskingError, ask, hub_options
from shoal.cli.printing import output_option, table, tell
from shoal.client.naming import UnknownKind
from shoal.client.requests import Client
from shoal.objects.duration import human_since
from shoal.objects.errors import NotFound

if TYPE_CHECKING:
    from shoal.assemble.tree import Branch, Tree


@click.command(name="tree")
@click.argument("kind")
@click.argument("name")
@click.option("-n", "--namespace", default="default", show_default=True)
@click.option("--cluster", default="", metavar="NAME", help="The workload Cluster the object is in. [the hub]")
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
    """Who owns the object NAME, and what it owns: on the hub, and in the clusters where it has copies.

    Copies are found through the kubeconfigs that the hub has of its clusters. The object is marked by a star.
    """

    async def question(client: Client) -> Tree:
        from shoal.assemble.tree import NoKubeconfig, tree_in, tree_of  # noqa: PLC0415  the syncer's code loads for long

        if not cluster:
            return await tree_of(client, kind, namespace, name)
        try:
            return await tree_in(client, cluster, kind, namespace, name)
        except NoKubeconfig as error:
            raise AskingError(f"{cluster} cannot be looked into: {error}") from None

    try:
        found = ask(kubeconfig, data_dir, question, "looking at everything there is")
    except UnknownKind as error:
        raise AskingError(str(error), error.hint) from None
    except NotFound as error:
        raise AskingError(str(error), "-n names another namespace; shoal status shows the fleet") from None
    tell(asdict(found), text(found, time.time(), wide=output == "wide"), output)
    if output in ("text", "wide"):
        for note in found.notes:
            click.echo(f"note: {note}", err=True)


def text(found: Tree, now: float, *, wide: bool = False) -> list[str]:
    head = ["OBJECT", "WHERE", "READY", "AGE", *(["NAMESPACE", "REASON"] if wide else [])]
    return table([head, *(_row(line, one, now, wide) for line, one in _lines(found.top, "", ""))])


def _lines(branch: Branch, first: str, rest: str) -> Iterator[tuple[str, Branch]]:
    """Yields each node with the text of its line."""
    mark = "*" if branch.asked else ""
    how = f"{branch.how} " if branch.how else ""
    yield f"{first}{how}{branch.kind}/{branch.name}{mark}", branch
    for number, child in enumerate(branch.children, 1):
        last = number == len(branch.children)
        yield from _lines(child, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))


def _row(line: str, branch: Branch, now: float, wide: bool) -> list[str]:
    age = human_since(branch.created, now) if branch.created else "-"
    row = [line, branch.cluster or "hub", branch.ready or "-", age]
    return [*row, branch.namespace or "-", branch.reason or "-"] if wide else row
