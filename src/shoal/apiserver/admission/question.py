"""Admission attributes: a write as webhooks and policies see it, with the object in the version they ask for."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import orjson

from shoal.apiserver.admission.shown import Form
from shoal.apiserver.core import Call, Core
from shoal.apiserver.policies.authorizing import asking
from shoal.apiserver.registry import Resource
from shoal.apiserver.render import served_object
from shoal.apiserver.webhooks.conversion import convert
from shoal.kinds.resources import NotAQuantity
from shoal.objects.errors import Cause, InternalError, NotFound, StatusError
from shoal.objects.metadata_types import unreadable
from shoal.objects.selectors import LabelSelector

if TYPE_CHECKING:
    from shoal.objects.cel.library.authz import Ask

Object = dict[str, Any]

KINDS = {"scale": ("autoscaling", "v1", "Scale")}


@dataclass(eq=False)
class Question:
    core: Core
    call: Call
    operation: str
    dry_run: bool
    options: Object = field(default_factory=dict)
    """The options of the request, in the form of its operation."""

    def request(self, shown: Resource, new: Object | None, old: Object | None) -> Object:
        """An AdmissionRequest without uid and objects."""
        resource, sub = self.call.resource, self.call.target.subresource
        name = self.name(new, old)
        # Upstream omits empty fields.
        named = {"subResource": sub, "requestSubResource": sub, "name": name, "namespace": self.namespace(name)}
        return {
            "kind": kind_of(shown, sub),
            "resource": resource_of(shown),
            "requestKind": kind_of(resource, sub),
            "requestResource": resource_of(resource),
            **{key: value for key, value in named.items() if value},
            "operation": self.operation,
            "userInfo": self._user,
            "dryRun": self.dry_run,
            "options": self.options,
        }

    def name(self, new: Object | None, old: Object | None) -> str:
        if self.call.verb == "deletecollection":
            return ""  # as upstream: the request has no name
        return self.call.name or str(((new or old or {}).get("metadata") or {}).get("name") or "")

    @cached_property
    def _user(self) -> Object:
        user = self.call.user
        found = {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": dict(user.extra)}
        return {key: value for key, value in found.items() if value}

    def namespace(self, name: str) -> str:
        return name if self.is_namespace else self.call.namespace

    @cached_property
    def namespace_object(self) -> Object | None:
        """The namespace of the object; None for a cluster-scoped object."""
        name = "" if self.is_namespace else self.call.namespace
        if not name:
            return None
        entry = self.core.cache.kind("", "namespaces").get(self.call.target.cluster, "", name)
        resource = self.core.clusters.registry(self.call.cluster).find("", "v1", "namespaces")
        if entry is None or resource is None:
            raise NotFound(f'namespaces "{name}" not found', name=name, kind="namespaces")
        return served_object(resource, entry)

    @property
    def is_namespace(self) -> bool:
        return self.call.resource.plural == "namespaces" and not self.call.resource.group

    def selected(
        self, namespaces: LabelSelector, objects: LabelSelector, new: Object | None, old: Object | None
    ) -> bool:
        """Matches the labels of the new or the old object, and of its namespace."""
        if not namespaces.empty and not self._in_namespace(namespaces, new):
            return False
        return objects.empty or any(
            objects.matches((obj.get("metadata") or {}).get("labels") or {}) for obj in (new, old) if obj is not None
        )

    def _in_namespace(self, namespaces: LabelSelector, new: Object | None) -> bool:
        call = self.call
        if self.is_namespace:
            if new is not None and not call.target.subresource:
                return namespaces.matches(new["metadata"].get("labels") or {})
            name = call.name
        elif not call.namespace:
            return True
        else:
            name = call.namespace
        entry = self.core.cache.kind("", "namespaces").get(call.target.cluster, "", name)
        if entry is None:
            raise NotFound(f'namespaces "{name}" not found', name=name, kind="namespaces")
        return namespaces.matches(entry.labels)

    async def seen(self, shown: Resource, obj: Object | None, form: Form) -> Object | None:
        return None if obj is None else await self.converted(shown, form.show(obj), form)

    async def converted(self, resource: Resource, obj: Object, form: Form) -> Object:
        """Converts the object to the version of that resource."""
        if not form.typed or obj.get("apiVersion") == resource.api_version:
            return obj
        if resource.custom:
            calls = self.core.webhooks.calls
            return (await convert(calls, self.call.target.cluster, resource, [orjson.loads(orjson.dumps(obj))]))[0]
        here = resource.rules.shared
        if here is not None:
            return here.from_stored(orjson.loads(orjson.dumps(obj)))
        there = self.core.clusters.registry(self.call.cluster).find("events.k8s.io", "v1", "events")
        assert there is not None
        assert there.rules.shared is not None
        return there.rules.shared.to_stored(orjson.loads(orjson.dumps(obj)))

    def settled(
        self, shown: Resource, changed: Object, who: str, seen: Object, form: Form, *, strict: bool = False
    ) -> None:
        """Checks, prunes and defaults a patched object. With `strict`, unknown fields are an error."""
        if not isinstance(changed, dict) or not isinstance(changed.get("metadata"), dict):
            raise internal(f"the patch of {who} did not leave an object")
        if any(changed.get(key) != seen.get(key) for key in ("apiVersion", "kind")):
            raise internal(f"the patch of {who} changed the type of the object")
        if not form.typed:
            return
        model = shown.model()
        unknown = model.prune(changed, collect=strict and not shown.custom)
        if unknown:
            raise internal(f"strict decoding error: {', '.join(unknown)}")
        wrong = unreadable(changed["metadata"]) if shown.custom else model.decoding_problem(changed)
        if wrong:
            raise internal(wrong)
        model.default(changed)
        try:
            shown.rules.default(changed)
        except NotAQuantity as error:
            raise internal(error.message) from None

    @cached_property
    def ask(self) -> Ask:
        return asking(self.core.authorizer, self.call.user, self.call.target.cluster)

    def annotate(self, key: str, value: str) -> None:
        """Adds an audit annotation."""
        if self.call.annotations is None:
            self.call.annotations = {}
        self.call.annotations[key] = value


def internal(said: str) -> StatusError:
    return InternalError(f"Internal error occurred: {said}", causes=[Cause("", said)])


def kind_of(resource: Resource, subresource: str) -> Object:
    taken = KINDS.get(subresource) or resource.subresources.get(subresource, ())[:3]
    group, version, kind = taken or (resource.group, resource.version, resource.kind)
    return {"group": group, "version": version, "kind": kind}


def resource_of(resource: Resource) -> Object:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}
