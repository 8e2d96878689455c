"""Every built-in kind that is stored, and a custom one: asked by every verb, option and kind of patch."""

# ruff: noqa: E501 - one case, one line
from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from shoal.kinds.catalogue import profile_builtins
from tests.apiserver.kind_samples import samples
from tests.real.differential.asking import Ask, Object, Story
from tests.serving import widget_definition

JSON_PATCH, MERGE, STRATEGIC, APPLY = (
    f"application/{name}"
    for name in ("json-patch+json", "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml")
)
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
PROTOBUF = "application/vnd.kubernetes.protobuf"
NOT_STORED = ("authentication.k8s.io", "authorization.k8s.io", "apiextensions.k8s.io", "autoscaling")
"""Reviews are asked, not kept; definitions and autoscalers have stories of their own."""
TIED = {"ipaddresses": "10.20.0.9", "apiservices": "v1.example.net"}
"""Kinds whose names say more than who it is."""
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAMESPACE = "pairs"


@dataclass(frozen=True)
class Kind:
    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    subresources: tuple[str, ...]
    sample: Object
    fields: tuple[str, ...] = ()
    custom: bool = False

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def collection(self) -> str:
        root = f"/apis/{self.api_version}" if self.group else "/api/v1"
        return f"{root}/namespaces/{NAMESPACE}/{self.plural}" if self.namespaced else f"{root}/{self.plural}"

    @property
    def everywhere(self) -> str:
        return f"/apis/{self.api_version}/{self.plural}" if self.group else f"/api/v1/{self.plural}"

    def named(self, name: str) -> str:
        return TIED.get(self.plural, name)

    def object(self, name: str, **metadata: object) -> Object:
        body = copy.deepcopy(self.sample)
        if self.plural == "pods":
            # Volumes for its token are added nowhere in this story; Shoal's containers do not run.
            body["spec"]["automountServiceAccountToken"] = False
        for about in ("involvedObject", "regarding"):
            if about in body:
                body[about] = {**body[about], "namespace": NAMESPACE}
        body["metadata"] = {"name": self.named(name), **metadata}
        return {"apiVersion": self.api_version, "kind": self.kind, **body}


@cache
def kinds() -> tuple[Kind, ...]:
    """Definitions come from one place; samples are never changed."""
    found = samples()
    made = []
    for each in profile_builtins("cluster"):
        if not {"create", "update"} <= set(each.verbs) or each.group in NOT_STORED:
            continue
        key = f"{each.plural}.{each.group}" if each.group else each.plural
        sample = found.get(f"{each.plural}.{each.version}.{each.group}") or found[key]
        subresources = tuple(part.name for part in each.subresources)
        made.append(
            Kind(
                each.group,
                each.version,
                each.plural,
                each.kind,
                each.namespaced,
                subresources,
                sample,
                each.selectable_fields,
            )
        )
    widget = {"spec": {"size": 2, "color": "red", "parts": [{"name": "a", "count": 1}]}}
    made.append(Kind("example.com", "v1", "widgets", "Widget", True, ("status", "scale"), widget, (), custom=True))
    return tuple(made)


def preparation() -> Story:
    """What the others stand on."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    widgets = f"/apis/example.com/v1/namespaces/{NAMESPACE}/widgets"
    return Story(
        "preparation",
        (
            Ask("POST", "/api/v1/namespaces", namespace),
            Ask("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", account),
            Ask("POST", f"{DEFINITION}?fieldValidation=Strict", widget_definition()),
            Ask("GET", widgets, until=200),
            Ask("GET", "/apis/example.com/v1", until=200),
        ),
    )


def stories() -> Iterator[Story]:
    for kind in kinds():
        title = f"{kind.plural}.{kind.group}".rstrip(".")
        yield Story(f"{title}: writes", tuple(_writes(kind)))
        yield Story(f"{title}: reads", tuple(_reads(kind)))
        yield Story(f"{title}: refusals", tuple(_refusals(kind)))


def _writes(kind: Kind) -> Iterator[Ask]:
    name = kind.named("writes")
    path = f"{kind.collection}/{name}"
    body = kind.object("writes", labels={"a": "1"})
    yield Ask("POST", f"{kind.collection}?dryRun=All&fieldManager=first", body)
    yield Ask("POST", f"{kind.collection}?fieldManager=first&fieldValidation=Strict", body)
    yield Ask("POST", kind.collection, body)
    yield Ask("GET", path)
    yield Ask("PUT", path, _changed(body, annotations={"b": "2"}))
    yield Ask("PUT", path, _changed(body, resourceVersion="@first@", labels={"c": "3"}))
    yield Ask("PUT", path, _changed(body, resourceVersion="@rv@", labels={"c": "3"}, finalizers=["example.com/f"]))
    yield Ask("PUT", path, _changed(body, uid="00000000-0000-4000-8000-000000000000"))
    yield Ask("PATCH", path, {"metadata": {"labels": {"d": "4", "c": None}}}, {"Content-Type": MERGE})
    yield Ask("PATCH", path, {"metadata": {"labels": {"d": None, "e": "5"}}}, {"Content-Type": STRATEGIC})
    patch = [{"op": "test", "path": "/metadata/name", "value": name}, {"op": "remove", "path": "/metadata/labels"}]
    yield Ask("PATCH", path, patch, {"Content-Type": JSON_PATCH})
    yield Ask("PATCH", path, [{"op": "test", "path": "/kind", "value": "No"}], {"Content-Type": JSON_PATCH})
    applied = kind.object("writes", labels={"f": "6"})
    yield Ask("PATCH", f"{path}?fieldManager=applier", applied, {"Content-Type": APPLY})
    yield Ask("PATCH", f"{path}?fieldManager=applier&force=true", applied, {"Content-Type": APPLY})
    yield Ask("PATCH", path, applied, {"Content-Type": APPLY})
    conflicting = kind.object("writes", labels={"f": "7"})
    yield Ask("PATCH", f"{path}?fieldManager=other", conflicting, {"Content-Type": APPLY})
    for part in kind.subresources:
        if part in ("status", "scale"):
            yield Ask("GET", f"{path}/{part}")
            yield Ask("PATCH", f"{path}/{part}", {"metadata": {"labels": {"g": "8"}}}, {"Content-Type": MERGE})
    yield Ask("DELETE", f"{path}?dryRun=All")
    yield Ask("DELETE", path, {"preconditions": {"uid": "00000000-0000-4000-8000-000000000000"}})
    yield Ask("DELETE", path, {"preconditions": {"resourceVersion": "@first@"}})
    yield Ask("DELETE", f"{path}?propagationPolicy=Background", {"gracePeriodSeconds": 0})
    yield Ask("PATCH", path, {"metadata": {"labels": {"late": "yes"}}}, {"Content-Type": MERGE})
    yield Ask("PATCH", path, {"metadata": {"finalizers": None}}, {"Content-Type": MERGE})
    yield Ask("GET", path)
    yield Ask("DELETE", path)
    yield Ask("PATCH", path, {"metadata": {"labels": {"a": "1"}}}, {"Content-Type": MERGE})
    yield Ask("PUT", path, body)


def _reads(kind: Kind) -> Iterator[Ask]:
    name = kind.named("reads")
    path = f"{kind.collection}/{name}"
    chosen = "labelSelector=story%3Dreads"
    yield Ask("PATCH", f"{path}?fieldManager=applier", kind.object("reads", labels={"story": "reads"}), {"Content-Type": APPLY})  # fmt: skip
    yield Ask("GET", path, headers={"Accept": TABLE})
    yield Ask("GET", f"{path}?includeObject=None", headers={"Accept": TABLE})
    yield Ask("GET", path, headers={"Accept": PARTIAL})
    yield Ask("GET", path, headers={"Accept": "application/yaml"})
    yield Ask("GET", path, headers={"Accept": PROTOBUF})
    yield Ask("GET", path, headers={"Accept": "text/html"})
    yield Ask("GET", f"{kind.collection}?{chosen}")
    yield Ask("GET", f"{kind.collection}?{chosen}&resourceVersion=0")
    yield Ask("GET", f"{kind.collection}?{chosen}&resourceVersion=@rv@&resourceVersionMatch=Exact")
    yield Ask("GET", f"{kind.collection}?{chosen}&limit=1")
    yield Ask("GET", f"{kind.collection}?fieldSelector=metadata.name%3D{name}")
    yield Ask("GET", f"{kind.everywhere}?{chosen}", headers={"Accept": TABLE})
    for each in kind.fields[:4]:
        yield Ask("GET", f"{kind.collection}?{chosen}&fieldSelector={each}%3Dx")
    yield Ask("GET", f"{kind.collection}?{chosen}&fieldSelector=spec.nothing%3Dx")
    yield Ask("GET", f"{kind.collection}?watch=true&{chosen}&resourceVersion=0", events=1)
    yield Ask("DELETE", f"{kind.collection}?{chosen}&dryRun=All")
    yield Ask("DELETE", f"{kind.collection}?{chosen}")
    yield Ask("DELETE", f"{path}?gracePeriodSeconds=0")


def _refusals(kind: Kind) -> Iterator[Ask]:
    path = f"{kind.collection}/refused"
    body = kind.object("refused")
    # Some kinds take them: nothing may be left for the stories that follow.
    yield Ask("POST", f"{kind.collection}?dryRun=All", _changed(body, name="Not_A_Name!"))
    yield Ask("POST", f"{kind.collection}?dryRun=All", _changed(body, name=""))
    yield Ask("POST", f"{kind.collection}?dryRun=All", _changed(body, name="", generateName="-bad-"))
    yield Ask("POST", f"{kind.collection}?dryRun=All", _changed(body, labels={"not a key": "not a value!"}))
    yield Ask("POST", f"{kind.collection}?dryRun=All", _changed(body, annotations={"//": "x"}, finalizers=["plain"]))
    yield Ask("POST", f"{kind.collection}?dryRun=All", _changed(body, ownerReferences=[{"kind": "Pod", "name": "p"}]))
    yield Ask("POST", f"{kind.collection}?dryRun=All", {**body, "apiVersion": "example.org/v9"})
    yield Ask("POST", f"{kind.collection}?dryRun=All", {**body, "kind": "Other"})
    yield Ask("POST", f"{kind.collection}?dryRun=All", {key: value for key, value in body.items() if key != "kind"})
    yield Ask("POST", f"{kind.collection}?dryRun=All", _changed(body, namespace="elsewhere"))
    yield Ask("POST", f"{kind.collection}?dryRun=All", _changed(body, resourceVersion="1"))
    yield Ask("POST", f"{kind.collection}?dryRun=All&fieldValidation=Strict", {**body, "surplus": {"a": 1}})
    yield Ask("POST", f"{kind.collection}?dryRun=All&fieldValidation=Warn", {**body, "surplus": {"a": 1}})
    yield Ask("POST", kind.collection, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "x"}})
    yield Ask("POST", kind.collection, {"metadata": 7})
    yield Ask("PUT", path, body)
    yield Ask("PUT", path, _changed(body, resourceVersion="1"))
    yield Ask("PATCH", path, {}, {"Content-Type": MERGE})
    yield Ask("PATCH", path, {}, {"Content-Type": "text/plain"})
    yield Ask("DELETE", path)
    yield Ask("POST", path, body)


def _changed(body: Object, **metadata: object) -> Object:
    return {**body, "metadata": {**body["metadata"], **metadata}}
