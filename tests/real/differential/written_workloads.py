"""Workloads and small kinds beyond their samples: what is told beside the answer, and what changes on the way in."""

from __future__ import annotations

from collections.abc import Iterator

from tests.apiserver.kind_samples import ONCE, POD
from tests.real.differential.asking import Ask, Object, Story
from tests.real.differential.kinds import MERGE, NAMESPACE

APPS, BATCH, LEASES, CORE = (
    f"{root}/namespaces/{NAMESPACE}{rest}"
    for root, rest in (
        ("/apis/apps/v1", ""),
        ("/apis/batch/v1", ""),
        ("/apis/coordination.k8s.io/v1", "/leases"),
        ("/api/v1", ""),
    )
)
INGRESSES = f"/apis/networking.k8s.io/v1/namespaces/{NAMESPACE}/ingresses"
OLD_LABEL = {"beta.kubernetes.io/os": "linux"}
ODD = {**POD, "nodeSelector": OLD_LABEL}
ODD_TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": ODD}
WEB = {"matchLabels": {"app": "web"}}


def made(version: str, kind: str, name: str = "odd", metadata: Object | None = None, **fields: object) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **(metadata or {})}, **fields}


def workload(kind: str, name: str = "odd", template: Object | None = None, **spec: object) -> Object:
    return made("apps/v1", kind, name, spec={"selector": WEB, "template": template or ODD_TEMPLATE, **spec})


def stories() -> Iterator[Story]:
    for number, (path, body) in enumerate(_posted()):
        yield Story(f"workloads: {number} {body['kind']}", (Ask("POST", f"{path}?dryRun=All", body),))
    yield Story("workloads: deployment", tuple(_changes("deployments", "Deployment")))
    yield Story("workloads: stateful set", tuple(_changes("statefulsets", "StatefulSet")))
    yield Story("workloads: daemon set", tuple(_daemon_set()))
    yield Story("workloads: nameless limits", tuple(_nameless()))


def _posted() -> Iterator[tuple[str, Object]]:
    for kind, plural in (
        ("Deployment", "deployments"),
        ("ReplicaSet", "replicasets"),
        ("DaemonSet", "daemonsets"),
        ("StatefulSet", "statefulsets"),
    ):
        yield f"{APPS}/{plural}", workload(kind, "odd.name" if kind != "StatefulSet" else "odd")
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1500m"}}},
    }
    yield (
        f"{APPS}/statefulsets",
        workload("StatefulSet", serviceName="web", revisionHistoryLimit=-1, volumeClaimTemplates=[claim]),
    )
    yield (
        f"{CORE}/replicationcontrollers",
        made("v1", "ReplicationController", "odd.name", spec={"selector": {"app": "web"}, "template": ODD_TEMPLATE}),
    )
    once = {"spec": {**ONCE["spec"], "nodeSelector": OLD_LABEL}}
    labelled = {"metadata": {"labels": {"app": "web"}}, **once}
    yield f"{BATCH}/jobs", made("batch/v1", "Job", "odd.name", spec={"template": once})
    yield f"{BATCH}/jobs", made("batch/v1", "Job", spec={"template": labelled})
    yield f"{BATCH}/jobs", made("batch/v1", "Job", metadata={"labels": {"app": "web"}}, spec={"template": labelled})
    yield f"{BATCH}/jobs", made("batch/v1", "Job", "Bad Name", spec={"template": labelled})
    yield (
        f"{BATCH}/jobs",
        made(
            "batch/v1",
            "Job",
            spec={"template": once, "completionMode": "Indexed", "completions": 100_001, "parallelism": 10_001},
        ),
    )
    yield (
        f"{BATCH}/cronjobs",
        made(
            "batch/v1",
            "CronJob",
            "odd.name",
            spec={"schedule": "* * * * *", "jobTemplate": {"spec": {"template": once}}},
        ),
    )
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    yield (
        INGRESSES,
        made(
            "networking.k8s.io/v1",
            "Ingress",
            metadata={"annotations": {"kubernetes.io/ingress.class": "x"}},
            spec={"defaultBackend": backend},
        ),
    )
    runtimes = "/apis/node.k8s.io/v1/runtimeclasses"
    yield (
        runtimes,
        made(
            "node.k8s.io/v1",
            "RuntimeClass",
            handler="runc",
            scheduling={"nodeSelector": OLD_LABEL, "tolerations": [{"key": "a", "operator": "Exists"}] * 2},
        ),
    )
    yield (
        runtimes,
        made(
            "node.k8s.io/v1",
            "RuntimeClass",
            handler="runc",
            overhead={"podFixed": {"cpu": "0.5", "memory": "-1"}},
            scheduling={"nodeSelector": OLD_LABEL},
        ),
    )
    for when in (
        "2024-01-02T03:04:05.123456Z",
        "2024-01-02T03:04:05.123456+02:00",
        "2024-01-02T03:04:05.12Z",
        "",
        "2024-13-02T03:04:05.000000Z",
        7,
        None,
    ):
        yield LEASES, made("coordination.k8s.io/v1", "Lease", spec={"renewTime": when})
    yield (
        LEASES,
        made(
            "coordination.k8s.io/v1",
            "Lease",
            spec={"holderIdentity": "a", "strategy": "OldestEmulationVersion", "preferredHolder": "b"},
        ),
    )
    for reference in (None, {}, {"resource": "services", "name": "a/b", "namespace": ".."}):
        yield (
            "/apis/networking.k8s.io/v1/ipaddresses",
            made("networking.k8s.io/v1", "IPAddress", "10.20.0.8", spec={"parentRef": reference}),
        )


def _changes(plural: str, kind: str) -> Iterator[Ask]:
    path = f"{APPS}/{plural}"
    yield Ask("POST", path, workload(kind))
    yield Ask("PUT", f"{path}/odd", workload(kind, minReadySeconds=5))
    yield Ask("PATCH", f"{path}/odd", {"metadata": {"labels": {"a": "1"}}}, {"Content-Type": MERGE})
    yield Ask("PATCH", f"{path}/odd", {"spec": {"selector": {"matchLabels": {"A b": "1"}}}}, {"Content-Type": MERGE})
    yield Ask("DELETE", f"{path}/odd")


def _daemon_set() -> Iterator[Ask]:
    """The count of its templates is the server's, whatever is written."""
    path = f"{APPS}/daemonsets"
    plain = {**ODD_TEMPLATE, "spec": POD}
    yield Ask("POST", path, workload("DaemonSet"))
    yield Ask("PUT", f"{path}/odd", workload("DaemonSet", minReadySeconds=5))
    yield Ask("PUT", f"{path}/odd?fieldManager=second", workload("DaemonSet", template=plain))
    yield Ask("PUT", f"{path}/odd/status", {**workload("DaemonSet", template=plain), "status": {"numberReady": 1}})
    annotated = workload("DaemonSet", template=plain)
    annotated["metadata"]["annotations"] = {"deprecated.daemonset.template.generation": "9"}
    yield Ask("PUT", f"{path}/odd", annotated)
    yield Ask("DELETE", f"{path}/odd")


def _nameless() -> Iterator[Ask]:
    """Of a type that no pod is held to: stories that follow are told of pods."""
    path = f"{CORE}/limitranges"
    limits = {"limits": [{"type": "example.com/thing", "max": {"cpu": "1"}}]}
    body = made("v1", "LimitRange", spec=limits)
    yield Ask("POST", f"{path}?dryRun=All", {**body, "metadata": {}})
    yield Ask("POST", path, body)
    yield Ask("PUT", f"{path}/odd", {**body, "spec": {"limits": []}})
    yield Ask("GET", f"{path}/odd")
    yield Ask("DELETE", f"{path}/odd")
