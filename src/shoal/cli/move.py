"""`shoal move`: asks the hub to move a ManagedCluster to another Worker, and waits for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from shoal.cli.options.hub import CommandError, call_hub, hub_options
from shoal.client.rest import Client, GroupVersionResource
from shoal.kinds.fleet import infrav1
from shoal.kinds.fleet.move_request import cleared_annotations, move_annotations, move_request
from shoal.objects.conditions import condition_is, get_condition
from shoal.objects.duration import parse_duration
from shoal.objects.errors import NotFound

Object = dict[str, Any]

MANAGED_CLUSTERS = GroupVersionResource(infrav1.GROUP, infrav1.VERSION, "managedclusters")
WORKERS = GroupVersionResource(infrav1.GROUP, infrav1.VERSION, "workers")
POLL_SECONDS = 0.25
REFUSED_POLLS = 8
"""The reason may be that of before the request when it is read first."""


def _parse_timeout(context: click.Context, option: click.Parameter, value: str) -> float:
    seconds = parse_duration(value)
    if seconds is None:
        raise click.BadParameter(f"{value}: give a duration such as 30s or 5m")
    return seconds


@click.command(name="move")
@click.argument("name")
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of the managed cluster.")
@click.option("--to", default="", metavar="WORKER", help="Worker to move it to. [one that the scheduler chooses]")
@click.option("--cancel", is_flag=True, help="Withdraw a request that is not complete.")
@click.option(
    "--timeout",
    default="2m",
    show_default=True,
    callback=_parse_timeout,
    metavar="DURATION",
    help="How long to wait until it runs there; 0s does not wait.",
)
@hub_options
def command(
    *, name: str, namespace: str, to: str, cancel: bool, timeout: float, kubeconfig: Path | None, data_dir: Path | None
) -> None:
    """Moves the managed cluster NAME to another Worker. Nothing is lost; it is read-only for a moment."""
    if cancel and to:
        raise click.UsageError("--cancel cannot be used with --to")
    space, _, one = name.rpartition("/")
    key = space or namespace, one

    async def request(client: Client) -> str:
        return await (cancel_move(client, key) if cancel else move(client, key, to, timeout))

    click.echo(call_hub(kubeconfig, data_dir, request, f"moving {one}"))


async def cancel_move(client: Client, key: tuple[str, str]) -> str:
    await _get(client, key)
    await client.merge_patch(MANAGED_CLUSTERS, key[1], {"metadata": {"annotations": cleared_annotations()}}, key[0])
    return f"{key[0]}/{key[1]} is not to be moved"


async def move(client: Client, key: tuple[str, str], to: str, timeout_seconds: float) -> str:
    title, managed = f"{key[0]}/{key[1]}", await _get(client, key)
    before = infrav1.assigned_worker(managed)
    if not before:
        raise CommandError(f"{title} is on no worker yet", f"shoal explain managedcluster {key[1]} -n {key[0]}")
    if to == before:
        return f"{title} is on worker {to} already"
    if to:
        await _check_worker(client, to)
    annotations = move_annotations(managed, to)
    await client.merge_patch(MANAGED_CLUSTERS, key[1], {"metadata": {"annotations": annotations}}, key[0])
    if not timeout_seconds:
        return f"{title} is to leave worker {before}"
    import asyncio  # noqa: PLC0415  help does not need it

    try:
        async with asyncio.timeout(timeout_seconds):
            after = await _wait(client, key, before)
    except TimeoutError:
        hint = "the request stays, kubectl describe shows its conditions; shoal move --cancel withdraws it"
        raise CommandError(f"{title} has not moved in time", hint) from None
    return f"{title} moved from worker {before} to {after}"


async def _wait(client: Client, key: tuple[str, str], before: str) -> str:
    """Returns the Worker that it runs on. Raises CommandError if the hub says why it stays."""
    import asyncio  # noqa: PLC0415

    refused_polls = 0
    while True:
        managed = await _get(client, key)
        worker, movable = infrav1.assigned_worker(managed), get_condition(managed, infrav1.MOVABLE)
        if worker != before and condition_is(managed, infrav1.READY) and not condition_is(managed, infrav1.MOVING):
            return worker
        refused_polls += worker == before and movable is not None and move_request(managed).is_due
        if movable is not None and refused_polls >= REFUSED_POLLS:
            raise CommandError(
                f"{key[0]}/{key[1]} stays on worker {before}: {movable.get('message')}",
                "it moves as soon as it can; shoal move --cancel withdraws the request",
            )
        await asyncio.sleep(POLL_SECONDS)


async def _get(client: Client, key: tuple[str, str]) -> Object:
    try:
        return await client.get(MANAGED_CLUSTERS, key[1], key[0])
    except NotFound:
        raise CommandError(f"there is no managed cluster {key[0]}/{key[1]}", "kubectl get managedclusters -A") from None


async def _check_worker(client: Client, name: str) -> None:
    try:
        await client.get(WORKERS, name, infrav1.NAMESPACE)
    except NotFound:
        raise CommandError(f"there is no worker {name}", f"kubectl get workers -n {infrav1.NAMESPACE}") from None
