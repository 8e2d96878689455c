"""Sequences of requests under policies, sent to kube-apiserver and to Shoal alike."""

from __future__ import annotations

from collections.abc import Callable

from tests.apiserver.policies.cases import CONFIG_MAPS, DEPLOYMENTS, REGISTRATION, Object, apply, check, patch
from tests.apiserver.policies.test_custom_kinds import GROUP, TABS, define, tab
from tests.serving import Answer, Cluster, config_map

Scene = Callable[[Cluster], list[Answer]]
NAMESPACE = "/api/v1/namespaces"


def bound(cluster: Cluster, name: str, spec: Object, rule: Object, sort: str = "validating", **more: Object) -> None:
    """A policy for one rule and all objects; `more` is of its matchConstraints and of its binding."""
    match = {"resourceRules": [rule], **more.get("match", {})}
    name = f"scene-{name}"
    made = {"metadata": {"name": name}, "spec": {"matchConstraints": match, **spec}}
    cluster.post(f"{REGISTRATION}/{sort}admissionpolicies", made).ok()
    binding: Object = {"policyName": name, **more.get("binding", {})}
    if sort == "validating":
        binding.setdefault("validationActions", ["Deny"])
    cluster.post(f"{REGISTRATION}/{sort}admissionpolicybindings", {"metadata": {"name": name}, "spec": binding}).ok()


def rule(*resources: str, group: str = "", version: str = "v1", operations: tuple[str, ...] = ("*",)) -> Object:
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": [*operations],
        "resources": [*resources],
    }


LIMITS: Object = {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]}
SHOWN = " + ' ' + ".join(
    (
        "request.operation",
        "request.?name.orValue('-')",
        "request.?subResource.orValue('-')",
        "request.kind.kind + '/' + request.kind.version",
        "request.requestKind.kind + '/' + request.requestKind.version",
        "request.resource.resource + '/' + request.resource.version",
        "string(request.options.kind)",
        "(object == null ? 'none' : 'some') + (oldObject == null ? 'none' : 'some')",
        "(namespaceObject == null ? '-' : namespaceObject.metadata.name)",
    )
)


def set_up(cluster: Cluster) -> None:
    """All policies of the scenes."""
    told = check("false", messageExpression=SHOWN)
    define(cluster)
    cluster.post(CONFIG_MAPS, config_map("seen", {"k": "1"}, labels={"scene": "update"})).ok()
    cluster.post(NAMESPACE, {"metadata": {"name": "scene", "labels": {"scene": "yes"}}}).ok()
    cluster.post(TABS.format("v1"), tab("v1", "old", cron="x")).ok()
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    cluster.post(DEPLOYMENTS, body).ok()
    selector: Object = {"objectSelector": {"matchLabels": {"scene": "update"}}}
    bound(cluster, "update", told, rule("configmaps", operations=("UPDATE", "DELETE")), match=selector)
    bound(cluster, "scale", told, rule("deployments/scale", group="apps"))
    bound(cluster, "status", told, rule("deployments/status", group="apps"))
    bound(cluster, "tabs", told, rule("crontabs", group=GROUP, version="v1"))
    bound(cluster, "exact", check("false", message="exact"), rule("roles", group="x"), match={"matchPolicy": "Exact"})
    bound(cluster, "hooks", told, rule("validatingwebhookconfigurations", group="admissionregistration.k8s.io"))
    bound(cluster, "nodes", told, rule("nodes"))
    here: Object = {"namespaceSelector": {"matchLabels": {"scene": "yes"}}}
    bound(cluster, "secrets", told, rule("secrets", operations=("CREATE",)), match=here)
    bound(cluster, "namespaces", told, rule("namespaces", operations=("UPDATE", "DELETE")), match=here)
    excluded: Object = {"excludeResourceRules": [{**rule("serviceaccounts"), "resourceNames": ["fine"]}]}
    bound(cluster, "accounts", told, rule("serviceaccounts", operations=("CREATE",)), match=excluded)
    bound(cluster, "tokens", told, rule("serviceaccounts/token"))
    bound(
        cluster,
        "services",
        apply("Object{metadata: Object.metadata{labels: {'by': 'policy'}}}"),
        rule("limitranges", operations=("CREATE", "UPDATE")),
        "mutating",
    )
    bound(
        cluster,
        "quotas",
        patch("[JSONPatch{op: 'add', path: '/spec/hard/pods', value: '7'}]"),
        rule("resourcequotas", operations=("CREATE", "UPDATE")),
        "mutating",
    )
    bound(cluster, "ready", check("false"), rule("podtemplates"))


def ready(cluster: Cluster) -> bool:
    template = {"metadata": {"name": "t"}, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}
    refused = cluster.post(f"{NAMESPACE}/default/podtemplates?dryRun=All", template).status == 422
    body = {"metadata": {"name": "dry"}, "spec": LIMITS}
    made = cluster.post(f"{NAMESPACE}/default/limitranges?dryRun=All", body).json
    return refused and (made["metadata"].get("labels") or {}).get("by") == "policy"


def _updates(cluster: Cluster) -> list[Answer]:
    path, labels = f"{CONFIG_MAPS}/seen", {"scene": "update"}
    return [
        cluster.put(path, config_map("seen", {"k": "2"}, labels=labels)),
        cluster.put(path, config_map("seen", {"k": "2"})),
        cluster.patch(path, {"data": {"k": "3"}}),
        cluster.patch(f"{path}?fieldManager=m&force=true", config_map("seen", {"k": "5"}), "apply"),
        cluster.delete(path),
        cluster.delete(f"{CONFIG_MAPS}?labelSelector=scene%3Dupdate"),
        cluster.patch(f"{CONFIG_MAPS}/made?fieldManager=m", config_map("made", {"k": "1"}, labels=labels), "apply"),
    ]


def _subresources(cluster: Cluster) -> list[Answer]:
    return [
        cluster.patch(f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 7}}),
        cluster.patch(f"{DEPLOYMENTS}/d/status", {"status": {"observedGeneration": 7}}),
    ]


def _custom(cluster: Cluster) -> list[Answer]:
    return [
        cluster.post(TABS.format("v1"), tab("v1", "a")),
        cluster.post(TABS.format("v2"), tab("v2", "b")),
        cluster.post(TABS.format("v2"), {**tab("v2", "b"), "metadata": {"name": "c", "labels": {"a": "b"}}}),
        cluster.patch(f"{TABS.format('v2')}/old", {"spec": {"cron": "y"}}),
        cluster.delete(f"{TABS.format('v2')}/old"),
    ]


def _others(cluster: Cluster) -> list[Answer]:
    hook = {"metadata": {"name": "x"}, "webhooks": []}
    accounts = f"{NAMESPACE}/default/serviceaccounts"
    return [
        cluster.post(f"{REGISTRATION}/validatingwebhookconfigurations", hook),
        cluster.post("/api/v1/nodes", {"metadata": {"name": "n"}}),
        cluster.post(f"{NAMESPACE}/scene/secrets", {"metadata": {"name": "s"}}),
        cluster.post(f"{NAMESPACE}/default/secrets", {"metadata": {"name": "s"}}),
        cluster.patch(f"{NAMESPACE}/scene", {"metadata": {"labels": {"more": "yes"}}}),
        cluster.delete(f"{NAMESPACE}/scene"),
        cluster.post(accounts, {"metadata": {"name": "fine"}}),
        cluster.post(accounts, {"metadata": {"name": "other"}}),
        cluster.post(f"{accounts}/fine/token", {"spec": {}}),
    ]


def _changed(cluster: Cluster) -> list[Answer]:
    limits, quotas = f"{NAMESPACE}/default/limitranges", f"{NAMESPACE}/default/resourcequotas"
    return [
        cluster.post(limits, {"metadata": {"name": "l"}, "spec": LIMITS}),
        cluster.patch(f"{limits}/l", {"metadata": {"labels": {"by": None}}}),
        cluster.patch(f"{limits}/l", {"metadata": {"labels": None}}),
        cluster.patch(
            f"{limits}/m?fieldManager=m",
            {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "m"}, "spec": LIMITS},
            "apply",
        ),
        cluster.post(quotas, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "3"}}}),
        cluster.post(quotas, {"metadata": {"name": "none"}}),
    ]


SCENES: dict[str, Scene] = {
    "updates": _updates,
    "subresources": _subresources,
    "custom": _custom,
    "others": _others,
    "changed": _changed,
}
