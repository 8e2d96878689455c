"""`shoal status`: the fleet on one page."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from shoal.cli import printing
from shoal.cli.asking import ask, hub_options
from shoal.cli.printing import output_option, tell
from shoal.client.requests import Client, Kind
from shoal.kinds import fleet, workload
from shoal.objects.duration import human_since
from shoal.objects.errors import NotFound

Object = dict[str, Any]
Rows = list[dict[str, str]]

WORKERS = Kind(fleet.GROUP, fleet.VERSION, "workers")
MANAGED = Kind(fleet.GROUP, fleet.VERSION, "managedclusters")
CLUSTERS = Kind(workload.GROUP, workload.VERSION, "clusters", namespaced=False)
DEPLOYMENTS = Kind("apps", "v1", "deployments")


@click.command(name="status")
@output_option(wide=True)
@hub_options
def command(output: str, kubeconfig: Path | None, data_dir: Path | None) -> None:
    """Workers, managed clusters, workload clusters and the workloads on them."""
    found = ask(kubeconfig, data_dir, lambda client: look(client, wide=output != "text"))
    tell(found, text(found), output)


def text(found: dict[str, Rows]) -> list[str]:
    lines: list[str] = []
    for title, rows in found.items():
        lines.append(f"{title}:" if rows else f"{title}: none")
        lines += [f"  {line}" for line in table(rows)]
    return lines


async def look(client: Client, *, wide: bool = False) -> dict[str, Rows]:
    now = time.time()
    found: dict[str, list[tuple[dict[str, str], dict[str, str], Object]]] = {
        "workers": [(_worker(obj), _worker_more(obj), obj) for obj in await _list(client, WORKERS)],
        "managed clusters": [(_managed(obj), _managed_more(obj), obj) for obj in await _list(client, MANAGED)],
        "workload clusters": [(_cluster(obj), _cluster_more(obj), obj) for obj in await _list(client, CLUSTERS)],
        "deployments": [
            (_deployment(obj), {}, obj)
            for obj in await _list(client, DEPLOYMENTS)
            if workload.ASSIGNED not in (obj["metadata"].get("labels") or {})
        ],
    }
    return {
        title: [{**row, **more, "age": _age(obj, now)} if wide else row for row, more, obj in rows]
        for title, rows in found.items()
    }


def table(rows: Rows) -> list[str]:
    if not rows:
        return []
    lines = [[name.upper() for name in rows[0]], *([str(cell) for cell in row.values()] for row in rows)]
    return printing.table(lines)


async def _list(client: Client, kind: Kind) -> list[Object]:
    try:
        return (await client.list_all(kind))[0]
    except NotFound:
        return []  # the hub has not discovered this kind in any cluster yet


def _age(obj: Object, now: float) -> str:
    return human_since(obj["metadata"].get("creationTimestamp"), now)


def _worker(obj: Object) -> dict[str, str]:
    status = obj.get("status") or {}
    free, all_of_it = status.get("availableCapacity", "?"), fleet.capacity_of(obj)
    return {"name": obj["metadata"]["name"], "phase": status.get("phase", "Pending"), "free": f"{free}/{all_of_it}"}


def _worker_more(obj: Object) -> dict[str, str]:
    spec = fleet.spec_of(obj)
    stays = "yes" if spec.get("unschedulable") or spec.get("drain") else "no"
    return {"location": spec.get("location") or "-", "kind": spec.get("infrastructure") or "-", "cordoned": stays}


def _managed(obj: Object) -> dict[str, str]:
    status, metadata = obj.get("status") or {}, obj["metadata"]
    return {
        "name": f"{metadata['namespace']}/{metadata['name']}",
        "phase": status.get("phase", "Pending"),
        "worker": status.get("assignedWorker", ""),
        "problem": next((error["message"] for error in reversed(status.get("errors") or ())), ""),
    }


def _managed_more(obj: Object) -> dict[str, str]:
    status, spec = fleet.status_of(obj), fleet.spec_of(obj)
    return {
        "version": status.get("version") or spec.get("version") or "-",
        "nodes": str(status.get("nodes", spec.get("nodes", 0))),
        "location": spec.get("location") or "-",
    }


def _cluster(obj: Object) -> dict[str, str]:
    status = obj.get("status") or {}
    ready = [each for each in status.get("conditions") or () if each["type"] == "Ready"]
    return {
        "name": obj["metadata"]["name"],
        "ready": ready[0]["status"] if ready else "Unknown",
        "synced": ",".join(status.get("syncedResources") or ()),
    }


def _cluster_more(obj: Object) -> dict[str, str]:
    has, left = ((obj.get("status") or {}).get(field) or {} for field in ("allocatable", "available"))
    free = {what: f"{left.get(what, '?')}/{has[what]}" if what in has else "-" for what in ("cpu", "memory")}
    return {"free cpu": free["cpu"], "free memory": free["memory"], "mode": workload.sync_mode(obj, "-")}


def _deployment(obj: Object) -> dict[str, str]:
    status, spec, metadata = obj.get("status") or {}, obj.get("spec") or {}, obj["metadata"]
    return {
        "name": f"{metadata['namespace']}/{metadata['name']}",
        "ready": f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}",
    }
