"""Metadata of a written object: what the server sets, what a client cannot change, and managedFields."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from shoal.apiserver.cache.storage_form import CLUSTER_ANNOTATION
from shoal.apiserver.request.options import WriteOptions
from shoal.apiserver.server import NameGenerator, RequestContext
from shoal.clock import rfc3339
from shoal.objects.apply import managed_fields_on_update
from shoal.objects.errors import BadRequest

Object = dict[str, Any]

SERVER_FIELDS = ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion", "generation")
SERVER_METADATA = ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink")


def fill_metadata(ctx: RequestContext, obj: Object, names: NameGenerator, now: float) -> None:
    """Sets the metadata of a new object."""
    metadata = obj["metadata"]
    set_namespace(ctx, metadata)
    dedup_owner_references(ctx, metadata)
    if not metadata.get("name") and metadata.get("generateName"):
        prefix = metadata["generateName"]
        metadata["name"] = str(prefix)[:58] + names.suffix() if ctx.resource.strategy.generate_suffix else str(prefix)
    for field in SERVER_FIELDS:
        metadata.pop(field, None)
    metadata["uid"] = names.uid()
    metadata["creationTimestamp"] = rfc3339(now)
    if ctx.resource.strategy.tracks_generation:
        metadata["generation"] = 1


def keep_server_metadata(ctx: RequestContext, new: Object, old: Object) -> None:
    """Keeps the metadata a client cannot change, whether it was sent or not."""
    before = old["metadata"]
    if new["metadata"] is before:
        # A patch that leaves metadata alone shares it with the old object, which must not be modified.
        new["metadata"] = dict(before)
    metadata = new["metadata"]
    set_namespace(ctx, metadata)
    dedup_owner_references(ctx, metadata)
    metadata.setdefault("uid", before["uid"])
    for field in SERVER_METADATA:
        if field in before:
            metadata[field] = before[field]
        elif not (field.startswith("deletion") and metadata.get(field) is not None):
            metadata.pop(field, None)  # a client-set deletionTimestamp stays, so that validation rejects it
    metadata["resourceVersion"] = before["resourceVersion"]


def dedup_owner_references(ctx: RequestContext, metadata: Object) -> None:
    """Removes duplicate ownerReferences and adds a warning."""
    owners = metadata.get("ownerReferences")
    if not isinstance(owners, list) or len(owners) < 2:
        return
    distinct: dict[str, Object] = {}
    duplicate_uids: dict[str, None] = {}
    for owner in owners:
        identity = json.dumps(owner, sort_keys=True)
        if identity in distinct:
            duplicate_uids[str(owner.get("uid"))] = None
        else:
            distinct[identity] = owner
    if duplicate_uids:
        when = " after mutating admission happens" if ctx.verb == "patch" else ""
        ctx.warnings.append(
            f".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, "
            "and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: "
            + ", ".join(duplicate_uids)
        )
        metadata["ownerReferences"] = list(distinct.values())


def set_namespace(ctx: RequestContext, metadata: Object) -> None:
    """Sets the namespace from the path and removes the cluster annotation of the wildcard view."""
    annotations = metadata.get("annotations")
    if annotations and CLUSTER_ANNOTATION in annotations:
        del annotations[CLUSTER_ANNOTATION]
        if not annotations:
            del metadata["annotations"]
    given = metadata.get("namespace") or ""
    if ctx.resource.namespaced:
        namespace = ctx.info.namespace
        if given and given != namespace:
            raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
        metadata["namespace"] = namespace
    else:
        metadata.pop("namespace", None)


def set_managed_fields(ctx: RequestContext, options: WriteOptions, old: Object | None, new: Object, now: float) -> None:
    """Updates managedFields after a create, update or patch."""
    without_nulls = new
    if old is not None and None in new.values():
        # A null is not owned: Go writes it for a field that was never set.
        without_nulls = {key: value for key, value in new.items() if value is not None or key in old}
    entries = managed_fields_on_update(
        old,
        without_nulls,
        manager=field_manager_of(ctx, options),
        api_version=ctx.resource.api_version,
        schema=ctx.resource.kind_schema().types,
        now=rfc3339(now),
        subresource=ctx.info.subresource,
        reset=reset_fields_of(ctx),
        only_this_version=ctx.resource.strategy.drop_other_form_managers,
    )
    if entries:
        new["metadata"]["managedFields"] = entries
    else:
        new["metadata"].pop("managedFields", None)


def reset_fields_of(ctx: RequestContext) -> Object | None:
    """Fields that a write to this endpoint does not write and therefore does not own."""
    subresource = ctx.info.subresource
    reset = (ctx.resource.strategy.reset_fields or {}).get(subresource)
    if reset is not None:
        return reset
    if subresource in ("status", "approval"):
        return {"f:spec": {}} if ctx.resource.strategy.status_writes_metadata else {"f:metadata": {}, "f:spec": {}}
    return {"f:status": {}} if ctx.resource.status else None


def field_manager_of(ctx: RequestContext, options: WriteOptions) -> str:
    if options.field_manager:
        return options.field_manager
    return _manager_from_user_agent(ctx.request.headers.get("user-agent", ""))


@lru_cache(maxsize=256)
def _manager_from_user_agent(agent: str) -> str:
    return "".join(c for c in agent.partition("/")[0] if c.isprintable())[:128] or "unknown"
