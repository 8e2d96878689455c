"""PUT, and the guaranteed-update loop of every change: read, build, check, compare-and-swap."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from shoal.apiserver.admission import admit
from shoal.apiserver.admission.shown import WHOLE, Form
from shoal.apiserver.admission.webhooks import Review, reviewed, write_body
from shoal.apiserver.cache import REMOVED, Entry
from shoal.apiserver.clusters import KIND as CLUSTERS
from shoal.apiserver.core import Call, Core
from shoal.apiserver.encoding import encode, splice
from shoal.apiserver.options import WriteOptions, write_options
from shoal.apiserver.paths import ROOT
from shoal.apiserver.purge import purge
from shoal.apiserver.render import one, served, served_object
from shoal.apiserver.turns import turn
from shoal.apiserver.verbs.create import create_object
from shoal.apiserver.webhooks.conversion import prepare
from shoal.apiserver.writing import (
    check_fields,
    check_type,
    conflict,
    converted_value,
    distinct_owners,
    fill_in,
    key_of,
    own,
    place,
    read_body,
    settle,
    settle_converted,
    stored_value,
    validate,
)
from shoal.objects.errors import AlreadyExists, BadRequest, invalid_object, invalid_value
from shoal.objects.names import validate_object_meta_update
from shoal.objects.wire import Response
from shoal.store.interface import CompareFailed

Object = dict[str, Any]
Make = Callable[[Object], Object]
"""Builds the new object from the current one. Called again after a lost race."""

CHANGING = ("update", "patch")
"""Verbs that webhooks get as an UPDATE. Other changes were already sent to them under their own kind."""
KEPT = ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink")


async def update(core: Core, call: Call) -> Response:
    options = write_options(call.query, "UpdateOptions")
    body = read_body(call.request, call.resource.kind)
    check_type(call, body)
    check_fields(call, options, body, call.request.body)
    name = body["metadata"].get("name")
    if not name:
        raise BadRequest("name must be provided")
    if name != call.name:
        raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({call.name})")
    rules = call.resource.rules
    fresh, uid = [body], body["metadata"].get("uid")
    if call.entry() is None and rules.create_on_update and not call.target.subresource:
        if body["metadata"].get("resourceVersion"):
            raise call.not_found()
        # If another client creates it first, that object is updated.
        with suppress(AlreadyExists):
            return await create_object(core, call, options, fresh.pop(), owned=False)
    if not body["metadata"].get("resourceVersion") and not rules.unconditional:
        _check_uid(call, uid, call.found().object())
        cause = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
        raise invalid_object(call.resource.plural, call.resource.group, name, [cause])

    def make(old: Object) -> Object:
        """Returns the decoded body. After a lost race it is decoded again, because the first attempt modified it."""
        if fresh:
            return fresh.pop()
        again = read_body(call.request, call.resource.kind)
        check_type(call, again)
        check_fields(call, WriteOptions(field_validation="Ignore"), again, None)
        return again

    return await change(core, call, options, make)


async def change(
    core: Core, call: Call, options: WriteOptions, make: Make, *, owned: bool = False, form: Form = WHOLE
) -> Response:
    """Runs one change. `managed_fields_set`: `build` sets managedFields itself (apply). `projection`: the object as
    webhooks see it.
    """
    while True:
        entry = call.found()
        if call.resource.conversion is not None:
            await prepare(core.webhooks.calls, call.target.cluster, call.resource, [entry])
        old = served_object(call.resource, entry)
        new = make(old)
        _check_preconditions(call, entry, old, new)
        _carry_over(call, new, old)
        late = call.target.subresource in ("", "status", "approval")
        if not late:
            _prepare(call, new, old)
        if not owned:
            # Before the strategy changes it: a field belongs to the client that wrote it, even if its value is not
            # kept.
            own(core, call, options, old, new)
        if late:
            _prepare(call, new, old)
        _count_generation(call, new, old)
        admit(core, call, new, old)
        review = reviewed(core, call, "UPDATE", options.dry_run) if call.verb in CHANGING else None
        if review is None:
            answer = await _put(core, call, options, entry, new, old)
        else:
            answer = await _reviewed(core, call, options, entry, new, old, review, form)
        if answer is not None:
            return answer


async def _reviewed(
    core: Core, call: Call, options: WriteOptions, entry: Entry, new: Object, old: Object, review: Review, form: Form
) -> Response | None:
    """Runs the change after webhooks and policies."""
    # A patch shares unchanged parts between old and new object, so the old one may have been modified: read it again.
    before = served_object(call.resource, entry)

    def again(changed: Object) -> None:
        _carry_over(call, changed, before)
        _prepare(call, changed, before)
        _count_generation(call, changed, before)
        admit(core, call, changed, before)

    review.options = write_body(call, "UpdateOptions")
    found = await review.mutate(new, before, again, form)
    assert found is not None
    old = old if found is new else before
    if found != old:
        _validate(call, found, old)
    await review.approve(found, before, form)
    async with turn(core, call):
        # Checked again: state may have changed while webhooks were called.
        admit(core, call, found, old)
        return await _put(core, call, options, entry, found, old)


def _validate(call: Call, new: Object, old: Object) -> None:
    validate(call, new, old, validate_object_meta_update(new["metadata"], old["metadata"]))


async def _put(
    core: Core, call: Call, options: WriteOptions, entry: Entry, new: Object, old: Object
) -> Response | None:
    """Returns None after a lost race."""
    if new == old:
        return one(call.resource, call.view, served(call.resource, entry), core.clock.now())
    _validate(call, new, old)
    if options.dry_run:
        return one(call.resource, call.view, splice(encode(new), entry.revision), core.clock.now())
    converts = call.resource.conversion is not None
    try:
        if _is_finished(new):
            await remove(core, call, entry)
            return one(call.resource, call.view, splice(encode(new), entry.revision), core.clock.now())
        value = await converted_value(core, call, new) if converts else stored_value(call, new)
        expected = 0 if entry.virtual else entry.revision
        revision = await core.store.put(key_of(call, entry.name), value, expected)
    except CompareFailed:
        await core.store.settled()
        return None
    name = entry.name
    data = (
        await settle_converted(core, call, revision, value, name) if converts else settle(call, revision, value, name)
    )
    return one(call.resource, call.view, data, core.clock.now())


async def remove(core: Core, call: Call, entry: Entry) -> int:
    """Removes the object from the store. A bootstrap object leaves a tombstone, or the shared one would reappear."""
    key, cluster = key_of(call, entry.name), call.target.cluster
    if (call.resource.group, call.resource.plural) == CLUSTERS and cluster == ROOT:
        await purge(core, entry.name)
    expected = 0 if entry.virtual else entry.revision
    if entry.virtual or call.kind.is_bootstrap(cluster, entry.key):
        return await core.store.put(key, REMOVED, expected)
    return await core.store.delete(key, expected)


def _check_preconditions(call: Call, entry: Entry, old: Object, new: Object) -> None:
    metadata = new["metadata"]
    given = metadata.get("resourceVersion")
    if given and given != "0" and given != str(entry.revision):
        raise conflict(call)
    if call.verb == "update":
        _check_uid(call, metadata.get("uid"), old)


def _check_uid(call: Call, given: str | None, old: Object) -> None:
    uid = old["metadata"]["uid"]
    if given and given != uid:
        raise conflict(call, f"Precondition failed: UID in precondition: {given}, UID in object meta: {uid}")


def _carry_over(call: Call, new: Object, old: Object) -> None:
    """Keeps the fields a client cannot change, whether they were sent or not."""
    before = old["metadata"]
    if new["metadata"] is before:
        # A patch that leaves metadata alone shares it with the old object, which must not be modified.
        new["metadata"] = dict(before)
    metadata = new["metadata"]
    place(call, metadata)
    distinct_owners(call, metadata)
    metadata.setdefault("uid", before["uid"])
    for field in KEPT:
        if field in before:
            metadata[field] = before[field]
        elif not (field.startswith("deletion") and metadata.get(field) is not None):
            metadata.pop(field, None)  # a client-set deletionTimestamp stays, so that validation rejects it
    metadata["resourceVersion"] = before["resourceVersion"]
    resource = call.resource
    resource.model().default(new)
    fill_in(call, new)
    if call.target.subresource in ("status", "approval"):
        _only_status(new, old, resource.rules.status_metadata)
        return
    if resource.status:
        if "status" in old:
            new["status"] = old["status"]
        else:
            new.pop("status", None)


def _prepare(call: Call, new: Object, old: Object) -> None:
    if call.target.subresource in ("status", "approval"):
        call.resource.rules.prepare_status(new, old)
    elif call.target.subresource != "finalize":
        call.resource.rules.prepare_update(new, old)


def _only_status(new: Object, old: Object, with_metadata: bool) -> None:
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


def _count_generation(call: Call, new: Object, old: Object) -> None:
    if not call.resource.rules.generation:
        return
    apart = ("metadata", "status") if call.resource.status else ("metadata",)
    if any(new.get(key) != old.get(key) for key in new.keys() | old.keys() if key not in apart):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def _is_finished(obj: Object) -> bool:
    """An object marked for deletion is removed with its last finalizer, unless its grace period is still running."""
    metadata = obj["metadata"]
    if "deletionTimestamp" not in metadata or metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds"):
        return False
    return not (obj["kind"] == "Namespace" and obj["apiVersion"] == "v1" and (obj.get("spec") or {}).get("finalizers"))
