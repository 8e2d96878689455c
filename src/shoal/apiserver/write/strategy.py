"""What the strategy of a kind does to a written object: defaults, status, generation, validation."""

from __future__ import annotations

from typing import Any

from shoal.apiserver.cache.storage_form import encode
from shoal.apiserver.server import RequestContext
from shoal.kinds.validation.resource_list import QuantityError
from shoal.objects.errors import BadRequest, invalid_object, invalid_value
from shoal.objects.names import validate_builtin_finalizers, validate_object_meta, validate_object_meta_update

Object = dict[str, Any]

STATUS_SUBRESOURCES = ("status", "approval")
"""Subresources that write only the status."""


def set_defaults(ctx: RequestContext, new: Object, old: Object | None) -> None:
    """Defaults of the schema and of the strategy. A write of the object leaves its status alone, and vice versa."""
    resource = ctx.resource
    resource.kind_schema().default(new)
    if old is None:
        if resource.status and not resource.strategy.status_on_create:
            new.pop("status", None)
            if not resource.custom:
                # Go encodes an empty struct, and patches rely on the field.
                new["status"] = {}
        _default_by_strategy(ctx, new)
        return
    _default_by_strategy(ctx, new)
    if ctx.info.subresource in STATUS_SUBRESOURCES:
        _keep_only_status(new, old, resource.strategy.status_writes_metadata)
    elif resource.status:
        if "status" in old:
            new["status"] = old["status"]
        else:
            new.pop("status", None)


def _default_by_strategy(ctx: RequestContext, obj: Object) -> None:
    """Applies the defaults of a built-in kind."""
    resource = ctx.resource
    try:
        resource.strategy.default(obj)
    except QuantityError as error:
        kind = resource.kind
        if ctx.verb == "patch":
            patched = encode(obj).decode()
            raise invalid_object("", "", "", [invalid_value("patch", patched, error.message)]) from None
        message = f'{kind} in version "{resource.version}" cannot be handled as a {kind}: {error.message}'
        raise BadRequest(message) from None


def _keep_only_status(new: Object, old: Object, with_metadata: bool) -> None:
    """A write to /status changes only the status and its owners, and for some kinds metadata."""
    status, metadata = new.get("status"), new["metadata"]
    owners = metadata.get("managedFields")
    new.clear()
    new.update(old)
    new["metadata"] = metadata if with_metadata else dict(old["metadata"])
    new.pop("status", None)
    if status is not None:
        new["status"] = status
    if owners is not None:
        new["metadata"]["managedFields"] = owners


def prepare(ctx: RequestContext, new: Object, old: Object | None) -> None:
    """Runs the strategy on the new object."""
    strategy = ctx.resource.strategy
    if old is None:
        strategy.prepare_for_create(new)
    elif ctx.info.subresource in STATUS_SUBRESOURCES:
        strategy.prepare_for_status_update(new, old)
    elif ctx.info.subresource != "finalize":
        strategy.prepare_for_update(new, old)


def bump_generation(ctx: RequestContext, new: Object, old: Object) -> None:
    if not ctx.resource.strategy.tracks_generation:
        return
    apart = ("metadata", "status") if ctx.resource.status else ("metadata",)
    if any(new.get(key) != old.get(key) for key in new.keys() | old.keys() if key not in apart):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def validate(ctx: RequestContext, obj: Object, old: Object | None, *, in_loop: bool = False) -> None:
    causes = [] if old is None else validate_object_meta_update(obj["metadata"], old["metadata"])
    strategy = ctx.resource.strategy
    if old is None:
        rule = strategy.name_rule if strategy.name_rule_for is None else strategy.name_rule_for(obj)
        namespaced = ctx.resource.namespaced
        causes += validate_object_meta(
            obj["metadata"], namespaced=namespaced, name_rule=rule, check_generate_name=strategy.validate_generate_name
        )
    if "finalizers" in obj["metadata"] and not (ctx.resource.custom or strategy.allow_unqualified_finalizers):
        causes += validate_builtin_finalizers(obj["metadata"]["finalizers"])
    status = ctx.info.subresource == "status"
    causes += ctx.resource.kind_schema().validate(obj, old, status=status, warnings=ctx.warnings, in_loop=in_loop)
    causes += strategy.validate(obj, old)
    if causes:
        name = obj["metadata"].get("name") or obj["metadata"].get("generateName") or ""
        raise invalid_object(ctx.resource.kind, ctx.resource.storage_group, name, causes)
    if not status:
        ctx.warnings.extend(strategy.warnings(obj, old))


def can_be_removed(obj: Object) -> bool:
    """An object marked for deletion is removed with its last finalizer, unless its grace period is still running."""
    metadata = obj["metadata"]
    if "deletionTimestamp" not in metadata or metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds"):
        return False
    return not (obj["kind"] == "Namespace" and obj["apiVersion"] == "v1" and (obj.get("spec") or {}).get("finalizers"))
