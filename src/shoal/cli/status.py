"""`shoal status`: the fleet on one page."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from shoal.cli import printers
from shoal.cli.options.hub import call_hub, hub_options
from shoal.cli.printers import output_option, print_output
from shoal.client.rest import Client, GroupVersionResource
from shoal.kinds.fleet import infrav1, logicalcluster
from shoal.kinds.rbac.loop_accounts import LOOPS, health_condition_of
from shoal.kinds.workload import workloadcluster
from shoal.objects.conditions import get_condition
from shoal.objects.duration import human_age
from shoal.objects.errors import Forbidden, NotFound

Object = dict[str, Any]
Rows = list[dict[str, str]]

WORKERS = GroupVersionResource(infrav1.GROUP, infrav1.VERSION, "workers")
MANAGED_CLUSTERS = GroupVersionResource(infrav1.GROUP, infrav1.VERSION, "managedclusters")
CLUSTERS = GroupVersionResource(workloadcluster.GROUP, workloadcluster.VERSION, "clusters", namespaced=False)
LOGICAL_CLUSTERS = GroupVersionResource(
    logicalcluster.GROUP, logicalcluster.VERSION, logicalcluster.PLURAL, namespaced=False
)
DEPLOYMENTS = GroupVersionResource("apps", "v1", "deployments")


@click.command(name="status")
@output_option(wide=True)
@hub_options
def command(output: str, kubeconfig: Path | None, data_dir: Path | None) -> None:
    """Prints workers, managed clusters, workload clusters and their workloads."""
    found = call_hub(kubeconfig, data_dir, lambda client: read_status(client, wide=output != "text"))
    print_output(found, status_lines(found), output)


def status_lines(sections: dict[str, Rows]) -> list[str]:
    lines: list[str] = []
    for title, rows in sections.items():
        lines.append(f"{title}:" if rows else f"{title}: none")
        lines += [f"  {line}" for line in format_rows(rows)]
    return lines


async def read_status(client: Client, *, wide: bool = False) -> dict[str, Rows]:
    now = time.time()
    sections: dict[str, list[tuple[dict[str, str], dict[str, str], Object]]] = {
        **await _hub_section(client),
        "workers": [(_worker_row(obj), _worker_wide_row(obj), obj) for obj in await _list(client, WORKERS)],
        "managed clusters": [
            (_managed_cluster_row(obj), _managed_cluster_wide_row(obj), obj)
            for obj in await _list(client, MANAGED_CLUSTERS)
        ],
        "workload clusters": [
            (_cluster_row(obj), _cluster_wide_row(obj), obj) for obj in await _list(client, CLUSTERS)
        ],
        "deployments": [
            (_deployment_row(obj), {}, obj)
            for obj in await _list(client, DEPLOYMENTS)
            if workloadcluster.CLUSTER_LABEL not in (obj["metadata"].get("labels") or {})
        ],
    }
    return {
        title: [{**row, **more, "age": _age(obj, now)} if wide else row for row, more, obj in rows]
        for title, rows in sections.items()
    }


async def _hub_section(client: Client) -> dict[str, list[tuple[dict[str, str], dict[str, str], Object]]]:
    """Returns nothing if all controllers of the hub run, or if the caller may not know."""
    try:
        root = await client.get(LOGICAL_CLUSTERS, "root")
    except (Forbidden, NotFound):
        return {}
    subjects = {"controllers": "ControllersHealthy", **{f"loop {loop}": health_condition_of(loop) for loop in LOOPS}}
    problems = {subject: _problem_of(root, condition) for subject, condition in subjects.items()}
    named = [(subject, problem) for subject, problem in problems.items() if problem]
    return {"hub": [({"name": subject, "problem": problem}, {}, root) for subject, problem in named]} if named else {}


def format_rows(rows: Rows) -> list[str]:
    if not rows:
        return []
    lines = [[name.upper() for name in rows[0]], *([str(cell) for cell in row.values()] for row in rows)]
    return printers.format_table(lines)


async def _list(client: Client, kind: GroupVersionResource) -> list[Object]:
    try:
        return (await client.list_all(kind))[0]
    except NotFound:
        return []  # the hub has not discovered this kind in any cluster yet


def _age(obj: Object, now: float) -> str:
    return human_age(obj["metadata"].get("creationTimestamp"), now)


def _worker_row(obj: Object) -> dict[str, str]:
    status = obj.get("status") or {}
    free, all_of_it = status.get("availableCapacity", "?"), infrav1.capacity_of(obj)
    return {
        "name": obj["metadata"]["name"],
        "phase": status.get("phase", "Pending"),
        "free": f"{free}/{all_of_it}",
        "problem": _problem_of(obj, "Ready", "BusConnected"),
    }


def _worker_wide_row(obj: Object) -> dict[str, str]:
    spec = infrav1.spec_of(obj)
    cordoned = "yes" if spec.get("unschedulable") or spec.get("drain") else "no"
    return {"location": spec.get("location") or "-", "kind": spec.get("infrastructure") or "-", "cordoned": cordoned}


def _managed_cluster_row(obj: Object) -> dict[str, str]:
    status, metadata = obj.get("status") or {}, obj["metadata"]
    return {
        "name": f"{metadata['namespace']}/{metadata['name']}",
        "phase": status.get("phase", "Pending"),
        "worker": status.get("assignedWorker", ""),
        "problem": _problem_of(obj, "WorkerReady")
        or next((error["message"] for error in reversed(status.get("errors") or ())), ""),
    }


def _managed_cluster_wide_row(obj: Object) -> dict[str, str]:
    status, spec = infrav1.status_of(obj), infrav1.spec_of(obj)
    return {
        "version": status.get("version") or spec.get("version") or "-",
        "nodes": str(status.get("nodes", spec.get("nodes", 0))),
        "location": spec.get("location") or "-",
    }


def _cluster_row(obj: Object) -> dict[str, str]:
    status = obj.get("status") or {}
    ready = get_condition(obj, "Ready") or {}
    return {
        "name": obj["metadata"]["name"],
        "ready": ready.get("status", "Unknown"),
        "synced": ",".join(status.get("syncedResources") or ()),
        "problem": _problem_of(obj, "Ready"),
    }


def _cluster_wide_row(obj: Object) -> dict[str, str]:
    allocatable, available = ((obj.get("status") or {}).get(field) or {} for field in ("allocatable", "available"))
    free = {
        what: f"{available.get(what, '?')}/{allocatable[what]}" if what in allocatable else "-"
        for what in ("cpu", "memory")
    }
    return {"free cpu": free["cpu"], "free memory": free["memory"], "mode": workloadcluster.sync_mode(obj, "-")}


def _deployment_row(obj: Object) -> dict[str, str]:
    status, spec, metadata = obj.get("status") or {}, obj.get("spec") or {}, obj["metadata"]
    return {
        "name": f"{metadata['namespace']}/{metadata['name']}",
        "ready": f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}",
        "problem": _problem_of(obj, "ClustersReporting", "Progressing", "Available"),
    }


def _problem_of(obj: Object, *types: str) -> str:
    """Returns the message of the first of these conditions that is not True; one that is absent is no problem."""
    for condition_type in types:
        condition = get_condition(obj, condition_type)
        if condition is not None and condition.get("status") != "True":
            return str(condition.get("message") or condition.get("reason", ""))
    return ""
