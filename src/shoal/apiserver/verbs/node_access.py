"""Requests only a kubelet could answer (logs, exec, proxies). Rejected, because the nodes are simulated."""

from __future__ import annotations

from shoal.apiserver.core import Call, Core
from shoal.kinds import workload
from shoal.objects.errors import BadRequest, NotImplementedHere
from shoal.objects.wire import Response

REFUSED = "simulated node; use infrastructure: kind"


def read_log(core: Core, call: Call) -> Response:
    """A pod without a node has an empty log."""
    _refuse_shown(call)
    spec = call.found().object().get("spec") or {}
    names = [
        container.get("name")
        for field in ("containers", "initContainers", "ephemeralContainers")
        for container in spec.get(field) or ()
    ]
    asked = call.query.get("container") or ""
    if asked and asked not in names:
        raise BadRequest(f"container {asked} is not valid for pod {call.name}")
    if not asked and len(spec.get("containers") or ()) > 1:
        choices = " ".join(str(container.get("name")) for container in spec["containers"])
        why = f"a container name must be specified for pod {call.name}, choose one of: [{choices}]"
        raise BadRequest(why)
    return reach_node(core, call) if spec.get("nodeName") else Response(200, b"", "text/plain")


def reach_container(core: Core, call: Call) -> Response:
    _refuse_shown(call)
    if not (call.found().object().get("spec") or {}).get("nodeName"):
        raise BadRequest(f"pod {call.name} does not have a host assigned")
    return reach_node(core, call)


def reach_node(core: Core, call: Call) -> Response:
    call.found()
    _refuse_shown(call)
    raise NotImplementedHere(REFUSED)


def _refuse_shown(call: Call) -> None:
    """A mirrored pod runs in a workload Cluster and must be accessed there."""
    metadata = call.found().object()["metadata"]
    cluster = workload.mirrored_from({"metadata": metadata}) if call.cluster.profile == "hub" else ""
    if cluster:
        there = (metadata.get("annotations") or {}).get(workload.MIRRORED_POD, "")
        raise NotImplementedHere(f"a mirror: the pod is {there} in the workload Cluster {cluster}; ask that cluster")
