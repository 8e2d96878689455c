"""Admission attributes: a write as webhooks and policies see it, with the object in the version they ask for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import orjson

from shoal.apiserver.admission.projection import Projection
from shoal.apiserver.authn.authenticator import SERVICE_ACCOUNT_PREFIX, User, service_account_groups
from shoal.apiserver.authz import Attributes, Authorizer
from shoal.apiserver.registry.registry import Resource
from shoal.apiserver.response.render import served_object
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.apiserver.webhooks.conversion import convert_objects
from shoal.kinds.validation.resource_list import QuantityError
from shoal.objects.errors import Cause, InternalError, NotFound, StatusError
from shoal.objects.metadata_types import unmarshal_error
from shoal.objects.selectors import LabelSelector

if TYPE_CHECKING:
    from shoal.objects.cel.library.authz import AuthzCheck, AuthzDecision


def cel_authorizer(authorizer: Authorizer, user: User, cluster: str) -> Callable[[AuthzCheck], AuthzDecision]:
    # CEL is imported only for requests that a policy or match condition evaluates.
    from shoal.objects.cel.library.authz import AuthzDecision  # noqa: PLC0415

    def check(wish: AuthzCheck) -> AuthzDecision:
        subject = user
        if wish.account is not None:
            namespace, name = wish.account
            subject = User(
                f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}", service_account_groups(namespace), cluster=cluster
            )
        if wish.path:
            attributes = Attributes(cluster, wish.verb, path=wish.path)
        else:
            attributes = Attributes(
                cluster,
                wish.verb,
                group=wish.group,
                version="*",
                resource=wish.resource,
                subresource=wish.subresource,
                namespace=wish.namespace,
                name=wish.name,
                fields=wish.fields,
                labels=wish.labels,
            )
        decision = authorizer.authorize(subject, attributes)
        return AuthzDecision(decision.allowed, decision.reason)

    return check


if TYPE_CHECKING:
    from shoal.objects.cel.library.authz import AuthorizeFunc

Object = dict[str, Any]

SUBRESOURCE_KINDS = {"scale": ("autoscaling", "v1", "Scale")}


@dataclass(eq=False)
class AdmissionAttributes:
    server: ServerComponents
    ctx: RequestContext
    operation: str
    dry_run: bool
    options: Object = field(default_factory=dict)
    """The options of the request, in the form of its operation."""

    def admission_request(self, matched: Resource, new: Object | None, old: Object | None) -> Object:
        """An AdmissionRequest without uid and objects."""
        resource, sub = self.ctx.resource, self.ctx.info.subresource
        name = self.name(new, old)
        # Upstream omits empty fields.
        optional_fields = {
            "subResource": sub,
            "requestSubResource": sub,
            "name": name,
            "namespace": self.request_namespace(name),
        }
        return {
            "kind": group_version_kind(matched, sub),
            "resource": group_version_resource(matched),
            "requestKind": group_version_kind(resource, sub),
            "requestResource": group_version_resource(resource),
            **{key: value for key, value in optional_fields.items() if value},
            "operation": self.operation,
            "userInfo": self._user_info,
            "dryRun": self.dry_run,
            "options": self.options,
        }

    def name(self, new: Object | None, old: Object | None) -> str:
        if self.ctx.verb == "deletecollection":
            return ""  # as upstream: the request has no name
        return self.ctx.name or str(((new or old or {}).get("metadata") or {}).get("name") or "")

    @cached_property
    def _user_info(self) -> Object:
        user = self.ctx.user
        info = {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": dict(user.extra)}
        return {key: value for key, value in info.items() if value}

    def request_namespace(self, name: str) -> str:
        return name if self.is_namespace else self.ctx.namespace

    @cached_property
    def namespace_object(self) -> Object | None:
        """The namespace of the object; None for a cluster-scoped object."""
        name = "" if self.is_namespace else self.ctx.namespace
        if not name:
            return None
        entry = self.server.cache.resource_cache("", "namespaces").get(self.ctx.info.cluster, "", name)
        resource = self.server.clusters.registry(self.ctx.cluster).find("", "v1", "namespaces")
        if entry is None or resource is None:
            raise NotFound(f'namespaces "{name}" not found', name=name, kind="namespaces")
        return served_object(resource, entry)

    @property
    def is_namespace(self) -> bool:
        return self.ctx.resource.plural == "namespaces" and not self.ctx.resource.group

    def matches_selectors(
        self, namespaces: LabelSelector, objects: LabelSelector, new: Object | None, old: Object | None
    ) -> bool:
        """Matches the labels of the new or the old object, and of its namespace."""
        if not namespaces.is_empty and not self._matches_namespace(namespaces, new):
            return False
        return objects.is_empty or any(
            objects.matches((obj.get("metadata") or {}).get("labels") or {}) for obj in (new, old) if obj is not None
        )

    def _matches_namespace(self, namespaces: LabelSelector, new: Object | None) -> bool:
        call = self.ctx
        if self.is_namespace:
            if new is not None and not call.info.subresource:
                return namespaces.matches(new["metadata"].get("labels") or {})
            name = call.name
        elif not call.namespace:
            return True
        else:
            name = call.namespace
        entry = self.server.cache.resource_cache("", "namespaces").get(call.info.cluster, "", name)
        if entry is None:
            raise NotFound(f'namespaces "{name}" not found', name=name, kind="namespaces")
        return namespaces.matches(entry.labels)

    async def versioned_object(self, resource: Resource, obj: Object | None, projection: Projection) -> Object | None:
        return None if obj is None else await self.convert_object(resource, projection.project(obj), projection)

    async def convert_object(self, resource: Resource, obj: Object, projection: Projection) -> Object:
        """Converts the object to the version of that resource."""
        if not projection.typed or obj.get("apiVersion") == resource.api_version:
            return obj
        if resource.custom:
            client = self.server.webhooks.client
            return (await convert_objects(client, self.ctx.info.cluster, resource, [orjson.loads(orjson.dumps(obj))]))[
                0
            ]
        alias = resource.strategy.storage_alias
        if alias is not None:
            return alias.from_stored(orjson.loads(orjson.dumps(obj)))
        events_resource = self.server.clusters.registry(self.ctx.cluster).find("events.k8s.io", "v1", "events")
        assert events_resource is not None
        assert events_resource.strategy.storage_alias is not None
        return events_resource.strategy.storage_alias.to_stored(orjson.loads(orjson.dumps(obj)))

    def decode_patched(
        self,
        resource: Resource,
        patched: Object,
        patched_by: str,
        original: Object,
        projection: Projection,
        *,
        strict: bool = False,
    ) -> None:
        """Checks, prunes and defaults a patched object. With `strict`, unknown fields are an error."""
        if not isinstance(patched, dict) or not isinstance(patched.get("metadata"), dict):
            raise internal_error(f"the patch of {patched_by} did not produce an object")
        if any(patched.get(key) != original.get(key) for key in ("apiVersion", "kind")):
            raise internal_error(f"the patch of {patched_by} changed the type of the object")
        if not projection.typed:
            return
        kind_schema = resource.kind_schema()
        unknown = kind_schema.prune(patched, collect=strict and not resource.custom)
        if unknown:
            raise internal_error(f"strict decoding error: {', '.join(unknown)}")
        error_text = unmarshal_error(patched["metadata"]) if resource.custom else kind_schema.decode_error(patched)
        if error_text:
            raise internal_error(error_text)
        kind_schema.default(patched)
        try:
            resource.strategy.default(patched)
        except QuantityError as error:
            raise internal_error(error.message) from None

    @cached_property
    def cel_authorizer(self) -> AuthorizeFunc:
        return cel_authorizer(self.server.authorizer, self.ctx.user, self.ctx.info.cluster)

    def annotate(self, key: str, value: str) -> None:
        """Adds an audit annotation."""
        if self.ctx.audit_annotations is None:
            self.ctx.audit_annotations = {}
        self.ctx.audit_annotations[key] = value


def internal_error(message: str) -> StatusError:
    return InternalError(f"Internal error occurred: {message}", causes=[Cause("", message)])


def group_version_kind(resource: Resource, subresource: str) -> Object:
    subresource_kind = SUBRESOURCE_KINDS.get(subresource) or resource.subresources.get(subresource, ())[:3]
    group, version, kind = subresource_kind or (resource.group, resource.version, resource.kind)
    return {"group": group, "version": version, "kind": kind}


def group_version_resource(resource: Resource) -> Object:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}
