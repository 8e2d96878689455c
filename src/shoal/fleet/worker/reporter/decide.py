"""What a worker says to the hub about a ManagedCluster it hosts, from the Cluster API objects in its own root. Pure."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from shoal.kinds import fleet
from shoal.objects.conditions import get_condition, set_condition

Object = dict[str, Any]

NOT_SUPPORTED = "InfrastructureNotSupported"
BROKEN_KUBECONFIG = "BrokenKubeconfig"


@dataclass(frozen=True, slots=True)
class Hosted:
    """What the worker's own root has of it."""

    cluster: Object | None = None
    kubeconfig: str = ""
    """As the hub is to publish it; empty: not there yet."""
    nodes_asked: Object | None = None
    """The MachineDeployment that follows `spec.nodes`."""
    pools: Sequence[Object] = ()
    """All of its MachineDeployments."""


def report(managed: Object, hosted: Hosted, worker: str, provides: Sequence[str], now: str) -> Object:
    """The status to write, made of the one the hub has."""
    infrastructure = fleet.spec_of(managed).get("infrastructure")
    if infrastructure not in provides:
        message = (
            f"infrastructure {infrastructure} is not supported by worker {worker}, which provides {', '.join(provides)}"
        )
        return failed(managed, NOT_SUPPORTED, message, now)
    running = is_provisioned(hosted.cluster) and bool(hosted.kubeconfig)
    told = _condition(managed, fleet.INFRASTRUCTURE_READY, *_infrastructure(hosted.cluster), now)
    told = _condition(told, fleet.NODES_READY, *_nodes(managed, hosted.nodes_asked), now)
    told = _condition(told, fleet.READY, *_ready(hosted, running), now)
    ready_nodes = sum(int(fleet.status_of(pool).get("readyReplicas") or 0) for pool in hosted.pools)
    return _status(told, fleet.RUNNING if running else fleet.PROVISIONING, ready_nodes)


def failed(managed: Object, reason: str, message: str, now: str) -> Object:
    told = _condition(managed, fleet.READY, "False", reason, message, now)
    status = _status(told, fleet.FAILED, int(fleet.status_of(managed).get("nodes") or 0))
    return {**status, "errors": fleet.errors_now(managed, [(reason, message)], now)}


def _status(told: Object, phase: str, nodes: int) -> Object:
    kept = {key: value for key, value in fleet.status_of(told).items() if key != "errors"}
    generation = int(told["metadata"].get("generation") or 0)
    return {**kept, "phase": phase, "nodes": nodes, "observedGeneration": generation}


def is_provisioned(cluster: Object | None) -> bool:
    if cluster is None or fleet.is_deleting(cluster):
        return False
    return fleet.status_of(cluster).get("phase") == "Provisioned"


def _infrastructure(cluster: Object | None) -> tuple[str, str, str]:
    if cluster is None:
        return "False", "NotThereYet", "the Cluster is not there yet"
    said = get_condition(cluster, fleet.INFRASTRUCTURE_READY)
    if said is not None:
        return str(said["status"]), str(said.get("reason") or "Unknown"), str(said.get("message") or "")
    initialization = fleet.status_of(cluster).get("initialization") or {}
    if initialization.get("infrastructureProvisioned"):
        return "True", "Provisioned", ""
    return "False", "Provisioning", "the infrastructure is being provisioned"


def _nodes(managed: Object, pool: Object | None) -> tuple[str, str, str]:
    asked = int(fleet.spec_of(managed).get("nodes") or 0)
    ready = int(fleet.status_of(pool).get("readyReplicas") or 0) if pool is not None else 0
    message = f"{min(ready, asked)} of {asked} nodes are ready"
    return ("True", "NodesReady", message) if ready >= asked else ("False", "NodesNotReady", message)


def _ready(hosted: Hosted, running: bool) -> tuple[str, str, str]:
    if running:
        return "True", "Running", "its API is served"
    if is_provisioned(hosted.cluster):
        return "False", "NoKubeconfig", "there is no kubeconfig for it yet"
    return "False", "Provisioning", "its control plane is being provisioned"


def _condition(obj: Object, type_: str, status: str, reason: str, message: str, now: str) -> Object:
    generation = obj["metadata"].get("generation")
    return set_condition(obj, type_, status, reason=reason, message=message, observed_generation=generation, now=now)


def published(secret: Object, name: str, server: str, authority: str) -> str:
    """The kubeconfig a provider made, with the hub's stable address in place of its own. ValueError: it is none."""
    try:
        text = base64.b64decode((secret.get("data") or {})["value"], validate=True)
        config = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        (user,) = (user["user"] for user in config["users"])
    except (KeyError, TypeError, ValueError, yaml.YAMLError):
        raise ValueError(f"Secret {secret['metadata']['name']} holds no kubeconfig with one user") from None
    cluster = {"server": server}
    if authority:
        cluster["certificate-authority-data"] = base64.b64encode(authority.encode()).decode()
    context = {"cluster": name, "user": f"{name}-admin"}
    made = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "contexts": [{"name": name, "context": context}],
        "current-context": name,
        "users": [{"name": f"{name}-admin", "user": user}],
    }
    return str(yaml.dump(made, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), sort_keys=False))
