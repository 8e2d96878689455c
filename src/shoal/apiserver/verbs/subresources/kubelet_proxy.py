"""Requests only a kubelet could answer (logs, exec, proxies). Rejected, because the nodes are simulated."""

from __future__ import annotations

from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.kinds.workload import workloadcluster
from shoal.objects.errors import BadRequest, NotImplementedHere
from shoal.objects.wire import Response

SIMULATED_NODE_MESSAGE = "simulated node; use infrastructure: kind"


def read_log(server: ServerComponents, ctx: RequestContext) -> Response:
    """A pod without a node has an empty log."""
    _refuse_mirrored(ctx)
    spec = ctx.require_object().object().get("spec") or {}
    names = [
        container.get("name")
        for field in ("containers", "initContainers", "ephemeralContainers")
        for container in spec.get(field) or ()
    ]
    container_name = ctx.query.get("container") or ""
    if container_name and container_name not in names:
        raise BadRequest(f"container {container_name} is not valid for pod {ctx.name}")
    if not container_name and len(spec.get("containers") or ()) > 1:
        choices = " ".join(str(container.get("name")) for container in spec["containers"])
        reason = f"a container name must be specified for pod {ctx.name}, choose one of: [{choices}]"
        raise BadRequest(reason)
    return refuse_proxy(server, ctx) if spec.get("nodeName") else Response(200, b"", "text/plain")


def refuse_exec(server: ServerComponents, ctx: RequestContext) -> Response:
    _refuse_mirrored(ctx)
    if not (ctx.require_object().object().get("spec") or {}).get("nodeName"):
        raise BadRequest(f"pod {ctx.name} does not have a host assigned")
    return refuse_proxy(server, ctx)


def refuse_proxy(server: ServerComponents, ctx: RequestContext) -> Response:
    ctx.require_object()
    _refuse_mirrored(ctx)
    raise NotImplementedHere(SIMULATED_NODE_MESSAGE)


def _refuse_mirrored(ctx: RequestContext) -> None:
    """A mirrored pod runs in a workload Cluster and must be accessed there."""
    metadata = ctx.require_object().object()["metadata"]
    cluster = workloadcluster.mirror_source({"metadata": metadata}) if ctx.cluster.profile == "hub" else ""
    if cluster:
        pod_name = (metadata.get("annotations") or {}).get(workloadcluster.MIRRORED_POD_ANNOTATION, "")
        raise NotImplementedHere(f"a mirror: the pod is {pod_name} in the workload Cluster {cluster}; ask that cluster")
