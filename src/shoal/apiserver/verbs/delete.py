"""DELETE of one object and of a collection: finalizers first, then removal."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import orjson

from shoal.apiserver.admission import admit_delete
from shoal.apiserver.admission.webhooks import reviewed
from shoal.apiserver.cache import Entry
from shoal.apiserver.core import Call, Core
from shoal.apiserver.encoding import encode, splice
from shoal.apiserver.options import DeleteOptions, delete_options, list_options, resume
from shoal.apiserver.recognizing import SCHEME
from shoal.apiserver.render import many, one, served, served_object
from shoal.apiserver.selection import selection
from shoal.apiserver.verbs.grace import begin_deletion
from shoal.apiserver.verbs.update import remove
from shoal.apiserver.webhooks.conversion import prepare
from shoal.apiserver.writing import conflict, converted_value, key_of, read_body, settle, settle_converted, stored_value
from shoal.clock import rfc3339
from shoal.objects.errors import BadRequest, Conflict, NotFound
from shoal.objects.wire import Response
from shoal.store.interface import CompareFailed

Object = dict[str, Any]

DELETING = ("delete", "deletecollection")
"""Verbs that webhooks and policies get as a DELETE. An eviction was already sent to them as a CREATE of its own
kind.
"""
TOGETHER = 256
"""Concurrent deletions of a collection: enough for full group commits, no more memory than that."""
PROPAGATION = {"Orphan": ["orphan"], "Foreground": ["foregroundDeletion"]}
PROPAGATED = frozenset({"orphan", "foregroundDeletion"})
"""Finalizers the garbage collector removes. Background deletion, the default, sets none."""
NEVER_OWNERS = (("", "events"), ("events.k8s.io", "events"))
ORPHANING = (("", "replicationcontrollers"), ("batch", "jobs"))
"""Kinds older than propagation policies: without a policy their dependents are orphaned."""


async def delete(core: Core, call: Call) -> Response:
    options = _options(call)
    entry = call.found()
    marked = await delete_entry(core, call, entry, options)
    if marked is None and call.resource.rules.returns_deleted:
        marked = served(call.resource, entry)
    if marked is not None:
        return one(call.resource, call.view, marked, core.clock.now())
    uid = entry.object()["metadata"]["uid"]
    details = {"name": entry.name, "kind": call.resource.plural, "uid": uid}
    if call.resource.group:
        details["group"] = call.resource.group
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    return Response(200, orjson.dumps(status))


async def deletecollection(core: Core, call: Call) -> Response:
    options = _options(call)
    listing = list_options(call.query, watching=False)
    chosen = selection(call.resource, listing.labels, listing.fields)
    resume(listing)
    entries = call.kind.table(call.target.cluster).select(call.namespace, listing.after)
    if chosen is not None:
        entries = [entry for entry in entries if chosen.matches(entry)]
    if listing.limit > 0:
        entries = entries[: listing.limit]
    for start in range(0, len(entries), TOGETHER):
        batch = entries[start : start + TOGETHER]
        await asyncio.gather(*(_delete_one_of_many(core, call, entry, options) for entry in batch))
    metadata: Object = {"resourceVersion": str(core.cache.revision)}
    return many(call.resource, call.view, entries, metadata, core.clock.now(), call.query.get("includeObject", ""))


async def _delete_one_of_many(core: Core, call: Call, entry: Entry, options: DeleteOptions) -> None:
    target = call.target._replace(namespace=entry.namespace, name=entry.name)
    single = Call(
        call.request, target, call.verb, call.user, call.cluster, call.resource, call.kind, call.view, call.query,
        call.warnings,
    )  # fmt: skip
    with suppress(NotFound):  # already deleted by another client
        await delete_entry(core, single, entry, options)


def _options(call: Call) -> DeleteOptions:
    body: Object | None = None
    if call.request.body:
        body = read_body(call.request, "")
        kind, version = body.get("kind"), body.get("apiVersion") or "v1"
        if kind not in (None, "", "DeleteOptions"):
            raise BadRequest(f'no kind "{kind}" is registered for version "{version}" {SCHEME}')
    options = delete_options(call.query, body)
    if not options.policy and (call.resource.group, call.resource.plural) == ("batch", "jobs"):
        call.warnings.append(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove "
            "them or set propagationPolicy=Orphan to suppress this warning"
        )
    return options


async def delete_entry(core: Core, call: Call, entry: Entry, options: DeleteOptions) -> bytes | None:
    """Returns the served bytes of an object that is still pending deletion, or that supports graceful deletion; None if
    it was removed.
    """
    converts = call.resource.conversion is not None
    while True:
        if converts:
            await prepare(core.webhooks.calls, call.target.cluster, call.resource, [entry])
        new = served_object(call.resource, entry)
        _check_preconditions(call, entry, new, options)
        admit_delete(core, call, new)
        review = reviewed(core, call, "DELETE", options.dry_run) if call.verb in DELETING else None
        if review is not None:
            review.options = _written_out(options)
            await review.mutate(None, new, _nothing)
            await review.approve(None, new)
        finalizers = list(new["metadata"].get("finalizers") or ())
        call.resource.rules.prepare_delete(new, rfc3339(core.clock.now()))
        propagate(new, options.policy, (call.resource.group, call.resource.plural))
        begun = begin_deletion(call.resource.rules, new, options.grace, core.clock.now())
        if _must_wait(new):
            if not begun and (new["metadata"].get("finalizers") or []) == finalizers:
                return served(call.resource, entry)
            if options.dry_run:
                return splice(encode(new), entry.revision)
            value = await converted_value(core, call, new) if converts else stored_value(call, new)
            try:
                revision = await core.store.put(key_of(call, entry.name), value, 0 if entry.virtual else entry.revision)
                if converts:
                    return await settle_converted(core, call, revision, value, entry.name)
                return settle(call, revision, value, entry.name)
            except CompareFailed:
                pass
        else:
            last = splice(encode(new), entry.revision) if call.resource.rules.grace is not None else None
            if options.dry_run:
                return last
            try:
                await remove(core, call, entry)
                return last
            except CompareFailed:
                pass
        await core.store.settled()
        entry = call.found()


def _written_out(options: DeleteOptions) -> Object:
    """DeleteOptions as webhooks see them."""
    body: Object = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
    preconditions = {"uid": options.uid, "resourceVersion": options.resource_version}
    found = {
        "gracePeriodSeconds": options.grace,
        "preconditions": {key: value for key, value in preconditions.items() if value} or None,
        "propagationPolicy": options.policy or None,
        "dryRun": ["All"] if options.dry_run else None,
    }
    return body | {key: value for key, value in found.items() if value is not None}


def _nothing(obj: Object) -> None:
    """A deletion has no object to mutate."""


def propagate(obj: Object, policy: str, resource: tuple[str, str]) -> None:
    """Sets the finalizer of the propagation policy. A requested policy replaces existing finalizers."""
    metadata = obj["metadata"]
    before = metadata.get("finalizers") or []
    wanted = PROPAGATION.get(policy) or ([f for f in before if f in PROPAGATED] if not policy else [])
    if not policy and not wanted and resource in ORPHANING:
        wanted = PROPAGATION["Orphan"]
    if resource in NEVER_OWNERS:
        wanted = []
    after = [f for f in before if f not in PROPAGATED] + wanted[:1]
    if set(after) != set(before):
        metadata["finalizers"] = after
        if not after:
            del metadata["finalizers"]


def _must_wait(obj: Object) -> bool:
    metadata = obj["metadata"]
    return bool(metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds") or _namespace_content(obj))


def _namespace_content(obj: Object) -> bool:
    return obj["kind"] == "Namespace" and obj["apiVersion"] == "v1" and bool((obj.get("spec") or {}).get("finalizers"))


def _check_preconditions(call: Call, entry: Entry, obj: Object, options: DeleteOptions) -> None:
    uid = obj["metadata"]["uid"]
    if _namespace_content(obj):
        _check_namespace(call, entry, uid, options)
    if options.uid and options.uid != uid:
        raise _failed(call, entry, f"the UID in the precondition ({options.uid}) does not match the UID in record "
                                   f"({uid}). The object might have been deleted and then recreated")  # fmt: skip
    if options.resource_version and options.resource_version != str(entry.revision):
        raise _failed(
            call,
            entry,
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match the "
            f"ResourceVersion in record ({entry.revision}). The object might have been modified",
        )


def _check_namespace(call: Call, entry: Entry, uid: str, options: DeleteOptions) -> None:
    """Namespaces are deleted by an update, so their preconditions have the wording of an update."""
    preconditions = (("UID", options.uid, uid), ("ResourceVersion", options.resource_version, str(entry.revision)))
    for field, wanted, found in preconditions:
        if wanted and wanted != found:
            why = f"Precondition failed: {field} in precondition: {wanted}, {field} in object meta: {found}"
            raise conflict(call, why, entry.name)


def _failed(call: Call, entry: Entry, why: str) -> Conflict:
    """Upstream names the kind, not the resource, when a deletion's precondition fails."""
    resource = call.resource
    group = resource.stored_group
    title = f"{resource.kind}.{group}" if group else resource.kind
    message = f'Operation cannot be fulfilled on {title} "{entry.name}": {why}'
    return Conflict(message, name=entry.name, group=group, kind=resource.kind)
