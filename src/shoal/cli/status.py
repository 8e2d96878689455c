"""`shoal status`: the fleet on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import orjson

from shoal.cli import printing
from shoal.cli.asking import ask, hub_options
from shoal.client.requests import Client, Kind
from shoal.kinds import fleet, workload
from shoal.objects.errors import NotFound

Object = dict[str, Any]

WORKERS = Kind(fleet.GROUP, fleet.VERSION, "workers")
MANAGED = Kind(fleet.GROUP, fleet.VERSION, "managedclusters")
CLUSTERS = Kind(workload.GROUP, workload.VERSION, "clusters", namespaced=False)
DEPLOYMENTS = Kind("apps", "v1", "deployments")


@click.command(name="status")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@hub_options
def command(output: str, kubeconfig: Path | None, data_dir: Path | None) -> None:
    """Workers, managed clusters, workload clusters and the workloads on them."""
    found = ask(kubeconfig, data_dir, look)
    if output == "json":
        click.echo(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode())
        return
    for title, rows in found.items():
        click.echo(f"{title}: {'none' if not rows else ''}")
        for line in table(rows):
            click.echo(f"  {line}")


async def look(client: Client) -> dict[str, list[dict[str, str]]]:
    return {
        "workers": [_worker(obj) for obj in await _list(client, WORKERS)],
        "managed clusters": [_managed(obj) for obj in await _list(client, MANAGED)],
        "workload clusters": [_cluster(obj) for obj in await _list(client, CLUSTERS)],
        "deployments": [
            _deployment(obj)
            for obj in await _list(client, DEPLOYMENTS)
            if workload.ASSIGNED not in (obj["metadata"].get("labels") or {})
        ],
    }


def table(rows: list[dict[str, str]]) -> list[str]:
    if not rows:
        return []
    lines = [[name.upper() for name in rows[0]], *([str(cell) for cell in row.values()] for row in rows)]
    return printing.table(lines)


async def _list(client: Client, kind: Kind) -> list[Object]:
    try:
        return (await client.list_all(kind))[0]
    except NotFound:
        return []  # no cluster has taught the hub this kind yet


def _worker(obj: Object) -> dict[str, str]:
    status = obj.get("status") or {}
    free, all_of_it = status.get("availableCapacity", "?"), fleet.capacity_of(obj)
    return {"name": obj["metadata"]["name"], "phase": status.get("phase", "Pending"), "free": f"{free}/{all_of_it}"}


def _managed(obj: Object) -> dict[str, str]:
    status, metadata = obj.get("status") or {}, obj["metadata"]
    return {
        "name": f"{metadata['namespace']}/{metadata['name']}",
        "phase": status.get("phase", "Pending"),
        "worker": status.get("assignedWorker", ""),
        "problem": next((error["message"] for error in reversed(status.get("errors") or ())), ""),
    }


def _cluster(obj: Object) -> dict[str, str]:
    status = obj.get("status") or {}
    ready = [each for each in status.get("conditions") or () if each["type"] == "Ready"]
    return {
        "name": obj["metadata"]["name"],
        "ready": ready[0]["status"] if ready else "Unknown",
        "synced": ",".join(status.get("syncedResources") or ()),
    }


def _deployment(obj: Object) -> dict[str, str]:
    status, spec, metadata = obj.get("status") or {}, obj.get("spec") or {}, obj["metadata"]
    return {
        "name": f"{metadata['namespace']}/{metadata['name']}",
        "ready": f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}",
    }
