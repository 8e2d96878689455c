"""Requests that only a kubelet could answer: logs, exec, attach, port-forward, proxies. All are refused.

No node has a kubelet that the server connects to. A refusal says why, and where the request can be answered.
"""

from __future__ import annotations

from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.kinds.clusterapi.embedded import SIMULATED_LABEL
from shoal.kinds.workload import workloadcluster
from shoal.objects.errors import BadRequest, NotImplementedHere
from shoal.objects.wire import Response

REAL_NODES = "containers run in clusters with real nodes, such as a KINDCluster or a joined cluster (docs/kind.md)"


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
    if not spec.get("nodeName"):
        return Response(200, b"", "text/plain")
    raise _unanswerable(server, ctx, str(spec["nodeName"]))


def refuse_exec(server: ServerComponents, ctx: RequestContext) -> Response:
    _refuse_mirrored(ctx)
    node = (ctx.require_object().object().get("spec") or {}).get("nodeName")
    if not node:
        raise BadRequest(f"pod {ctx.name} does not have a host assigned")
    raise _unanswerable(server, ctx, str(node))


def refuse_proxy(server: ServerComponents, ctx: RequestContext) -> Response:
    """Of a pod, a Service or a node."""
    obj = ctx.require_object().object()
    _refuse_mirrored(ctx)
    if ctx.resource.plural == "services":
        raise NotImplementedHere(
            f"this server does not connect to pods, and so not to Service {ctx.name}: connect to it from a machine of"
            f" its nodes; {REAL_NODES}"
        )
    node = ctx.name if ctx.resource.plural == "nodes" else (obj.get("spec") or {}).get("nodeName")
    raise _unanswerable(server, ctx, str(node or ""))


def _unanswerable(server: ServerComponents, ctx: RequestContext, node: str) -> NotImplementedHere:
    entry = server.cache.resource_cache("", "nodes").get(ctx.info.cluster, "", node)
    labels = (entry.object()["metadata"].get("labels") or {}) if entry is not None else {}
    if labels.get(SIMULATED_LABEL) == "true":
        return NotImplementedHere(
            f"node {node} is simulated and runs no containers: kubectl describe shows the state and the Events of its"
            f" pods; {REAL_NODES}"
        )
    subject = f"node {node}" if node else "the node of the pod"
    return NotImplementedHere(
        f"this server does not connect to kubelets: ask {subject} itself, for example with crictl"
    )


def _refuse_mirrored(ctx: RequestContext) -> None:
    """A mirrored pod runs in a workload Cluster and must be accessed there."""
    metadata = ctx.require_object().object()["metadata"]
    cluster = workloadcluster.mirror_source({"metadata": metadata}) if ctx.cluster.profile == "hub" else ""
    if cluster:
        pod_name = (metadata.get("annotations") or {}).get(workloadcluster.MIRRORED_POD_ANNOTATION, "")
        raise NotImplementedHere(
            f"mirrored pod: access pod {pod_name} in workload Cluster {cluster}, with a kubeconfig of that cluster"
            f" (shoal kubeconfig {cluster} if it is a ManagedCluster)"
        )
