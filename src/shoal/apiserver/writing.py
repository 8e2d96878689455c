"""The steps shared by all writes: body to object, metadata of a new object, the stored result.

Order of a write: decode, admit, validate, update managedFields, store. The verbs combine the steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from shoal.apiserver.cache import Entry, store_key
from shoal.apiserver.core import Call, Core
from shoal.apiserver.encoding import CLUSTER_ANNOTATION, encode, splice
from shoal.apiserver.negotiate import JSON, PROTOBUF, YAML, body_type
from shoal.apiserver.options import WriteOptions
from shoal.apiserver.recognizing import check_kind, check_type_meta, no_object, not_parsed, unrecognized
from shoal.apiserver.render import served
from shoal.apiserver.webhooks.conversion import convert, prepare
from shoal.clock import rfc3339
from shoal.kinds.resources import NotAQuantity
from shoal.objects import strictjson, yaml_read
from shoal.objects.apply import on_update
from shoal.objects.errors import BadRequest, Cause, Conflict, invalid_object, invalid_value
from shoal.objects.metadata_types import unreadable
from shoal.objects.names import validate_builtin_finalizers, validate_object_meta
from shoal.objects.protobuf import decode as decode_protobuf
from shoal.objects.wire import Request

Object = dict[str, Any]

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
SERVER_FIELDS = ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion", "generation")


def read_body(request: Request, kind: str = "object") -> Object:
    """Decodes the object of a body. `kind` is the expected kind, for the error."""
    form = body_type(request.headers.get("content-type", ""))
    if form == PROTOBUF:
        try:
            return decode_protobuf(request.body)[2]
        except BadRequest as error:
            raise unrecognized(request.body, kind, error.message) from None
    try:
        obj = yaml_read.loads(request.body) if form == YAML else strictjson.loads(request.body)
    except BadRequest as error:
        raise unrecognized(request.body, kind, error.message if form == YAML else not_parsed(error.message)) from None
    if obj is None:
        return {}
    if not isinstance(obj, dict):
        raise unrecognized(request.body, kind, no_object(obj))
    check_type_meta(obj, request.body, kind)
    return obj


def member(obj: Object, field: str) -> Object:
    """A nested object of an object that no schema has checked. Absent is empty."""
    value = obj.get(field)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadRequest(f"json: cannot unmarshal the field {field}: an object was expected")
    return value


def check_type(call: Call, obj: Object) -> None:
    """apiVersion and kind of the body must match the path. Built-in kinds may omit them."""
    resource = call.resource
    body = call.request.body if call.verb in ("create", "update") else None
    check_kind(resource, obj, body, lenient=call.query.get("fieldValidation") == "Ignore")
    metadata = obj.get("metadata")
    if metadata is None:
        obj["metadata"] = {}
    elif not isinstance(metadata, dict):
        found = {list: "array", str: "string", bool: "bool"}.get(type(metadata), "number")
        where = "value" if resource.custom else f"struct field {resource.kind}.metadata"
        title = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
        raise BadRequest(f"{title}: json: cannot unmarshal {found} into Go {where} of type v1.ObjectMeta")


def check_fields(
    call: Call, options: WriteOptions, obj: Object, text: bytes | None, complaints: Sequence[str] = ()
) -> None:
    """Prunes unknown fields and reports them, and duplicate keys of the text, as fieldValidation demands."""
    complaints = list(complaints)
    collect = options.field_validation != "Ignore"
    if collect and text is not None:
        complaints += duplicates(text, call.request.headers.get("content-type", ""), obj)
    model = call.resource.model()
    twice = len(complaints)
    complaints += model.prune(obj, collect=collect)
    if text is not None and 0 < twice < len(complaints) and not call.resource.custom:
        # Upstream decodes built-in kinds in one pass and checks custom resources against their schema afterwards.
        complaints = strictjson.in_text_order(text, complaints)
    if complaints:
        report(call, options, complaints)
    check_readable(call, obj)


def check_readable(call: Call, obj: Object) -> None:
    """Rejects objects that Go could not decode into their type, before any other check."""
    resource = call.resource
    problem = unreadable(obj["metadata"]) if resource.custom else resource.model().decoding_problem(obj)
    if problem:
        kind = resource.kind
        raise BadRequest(f'{kind} in version "{resource.version}" cannot be handled as a {kind}: {problem}')


def fill_in(call: Call, obj: Object) -> None:
    """Applies the defaults of a built-in kind."""
    resource = call.resource
    try:
        resource.rules.default(obj)
    except NotAQuantity as error:
        kind = resource.kind
        if call.verb == "patch":
            shown = encode(obj).decode()
            raise invalid_object("", "", "", [invalid_value("patch", shown, error.message)]) from None
        said = f'{kind} in version "{resource.version}" cannot be handled as a {kind}: {error.message}'
        raise BadRequest(said) from None


def duplicates(text: bytes, content_type: str, obj: Object) -> list[str]:
    """Duplicate keys, in upstream's wording for the format of the text."""
    form = body_type(content_type)
    if form == YAML:
        return yaml_read.duplicates(text)
    return strictjson.duplicates(text, obj) if form == JSON else []


def report(call: Call, options: WriteOptions, complaints: list[str]) -> None:
    if options.field_validation == "Strict" and call.verb == "patch":
        cause = invalid_value("patch", "", "strict decoding error: " + ", ".join(complaints))
        raise invalid_object("", "", "", [cause])
    if options.field_validation == "Strict":
        title = (
            f"{call.resource.kind} in version {show(call.resource.version)} cannot be handled as a {call.resource.kind}"
        )
        twice = [said for said in complaints if said.startswith("line ")]
        if twice:
            complaints = [yaml_read.together(twice), *complaints[len(twice) :]]
        raise BadRequest(f"{title}: strict decoding error: " + ", ".join(complaints))
    if options.field_validation == "Warn":
        call.warnings.extend(complaints)


def show(text: str) -> str:
    return f'"{text}"'


def begin(core: Core, call: Call, obj: Object) -> None:
    """Sets the metadata of a new object."""
    metadata = obj["metadata"]
    place(call, metadata)
    distinct_owners(call, metadata)
    if not metadata.get("name") and metadata.get("generateName"):
        prefix = metadata["generateName"]
        metadata["name"] = str(prefix)[:58] + core.dice.suffix() if call.resource.rules.suffixed else str(prefix)
    for field in SERVER_FIELDS:
        metadata.pop(field, None)
    metadata["uid"] = core.dice.uid()
    metadata["creationTimestamp"] = rfc3339(core.clock.now())
    if call.resource.rules.generation:
        metadata["generation"] = 1


def distinct_owners(call: Call, metadata: Object) -> None:
    """Removes duplicate ownerReferences and adds a warning."""
    owners = metadata.get("ownerReferences")
    if not isinstance(owners, list) or len(owners) < 2:
        return
    kept = [owner for index, owner in enumerate(owners) if owner not in owners[:index]]
    if len(kept) < len(owners):
        twice = dict.fromkeys(str(owner.get("uid")) for index, owner in enumerate(owners) if owner in owners[:index])
        when = " after mutating admission happens" if call.verb == "patch" else ""
        call.warnings.append(
            f".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, "
            "and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: "
            + ", ".join(twice)
        )
        metadata["ownerReferences"] = kept


def place(call: Call, metadata: Object) -> None:
    """Sets the namespace from the path and removes the cluster annotation of the wildcard view."""
    annotations = metadata.get("annotations")
    if annotations and CLUSTER_ANNOTATION in annotations:
        del annotations[CLUSTER_ANNOTATION]
        if not annotations:
            del metadata["annotations"]
    given = metadata.get("namespace") or ""
    if call.resource.namespaced:
        if given and given != call.namespace:
            raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
        metadata["namespace"] = call.namespace
    else:
        metadata.pop("namespace", None)


def validate(call: Call, obj: Object, old: Object | None, more: list[Cause] | None = None) -> None:
    causes = list(more or ())
    rules = call.resource.rules
    if old is None:
        rule = rules.name if rules.named is None else rules.named(obj)
        namespaced = call.resource.namespaced
        causes += validate_object_meta(obj["metadata"], namespaced=namespaced, name_rule=rule, prefix=rules.prefix)
    if "finalizers" in obj["metadata"] and not (call.resource.custom or rules.plain_finalizers):
        causes += validate_builtin_finalizers(obj["metadata"]["finalizers"])
    status = call.target.subresource == "status"
    causes += call.resource.model().validate(obj, old, status=status, warnings=call.warnings)
    causes += rules.validate(obj, old)
    if causes:
        name = obj["metadata"].get("name") or obj["metadata"].get("generateName") or ""
        raise invalid_object(call.resource.kind, call.resource.stored_group, name, causes)
    if not status:
        call.warnings.extend(rules.warn(obj, old))


def own(core: Core, call: Call, options: WriteOptions, old: Object | None, new: Object) -> None:
    """Updates managedFields after a create, update or patch."""
    shown = new
    if old is not None and None in new.values():
        # A null is not owned: Go writes it for a field that was never set.
        shown = {key: value for key, value in new.items() if value is not None or key in old}
    entries = on_update(
        old,
        shown,
        manager=manager_of(call, options),
        api_version=call.resource.api_version,
        schema=call.resource.model().types,
        now=rfc3339(core.clock.now()),
        subresource=call.target.subresource,
        reset=ignored_fields(call),
        alone=call.resource.rules.alone,
    )
    if entries:
        new["metadata"]["managedFields"] = entries
    else:
        new["metadata"].pop("managedFields", None)


def ignored_fields(call: Call) -> Object | None:
    """Fields that a write to this endpoint does not write and therefore does not own."""
    subresource = call.target.subresource
    reset = (call.resource.rules.resets or {}).get(subresource)
    if reset is not None:
        return reset
    if subresource in ("status", "approval"):
        return {"f:spec": {}} if call.resource.rules.status_metadata else {"f:metadata": {}, "f:spec": {}}
    return {"f:status": {}} if call.resource.status else None


def manager_of(call: Call, options: WriteOptions) -> str:
    if options.field_manager:
        return options.field_manager
    return _manager_named(call.request.headers.get("user-agent", ""))


@lru_cache(maxsize=256)
def _manager_named(agent: str) -> str:
    return "".join(c for c in agent.partition("/")[0] if c.isprintable())[:128] or "unknown"


def settle(call: Call, revision: int, value: bytes, name: str) -> bytes:
    """Returns the served bytes of the object just written and marks it as normalised in the cache."""
    return served(call.resource, _written(call, revision, value, name))


async def settle_converted(core: Core, call: Call, revision: int, value: bytes, name: str) -> bytes:
    """As `encode_written` for versions converted by a webhook: the response is what was stored, not what was sent."""
    entry = _written(call, revision, value, name)
    await prepare(core.webhooks.calls, call.target.cluster, call.resource, [entry])
    return served(call.resource, entry)


def _written(call: Call, revision: int, value: bytes, name: str) -> Entry:
    entry: Entry | None = call.kind.get(call.target.cluster, call.namespace, name)
    if entry is None or entry.revision != revision:
        entry = Entry(call.namespace, name, revision, splice(value, revision))
    if call.resource.version == call.resource.storage_version:
        entry.normal = call.resource.schema_hash
    return entry


def stored_value(call: Call, obj: Object) -> bytes:
    """Encodes the object in the storage version, whatever version it was sent in."""
    resource = call.resource
    if resource.custom and resource.version != resource.storage_version:
        obj = {**obj, "apiVersion": f"{resource.group}/{resource.storage_version}"}
    if resource.rules.shared is not None:
        obj = resource.rules.shared.to_stored(obj)
    return encode(obj)


async def converted_value(core: Core, call: Call, obj: Object) -> bytes:
    """As `encode_for_storage` for versions converted by a webhook."""
    resource = call.resource
    if resource.version == resource.storage_version:
        return encode(obj)
    storage = replace(resource, version=resource.storage_version)
    return encode((await convert(core.webhooks.calls, call.target.cluster, storage, [obj]))[0])


def key_of(call: Call, name: str) -> str:
    return store_key(call.kind.key, call.target.cluster, call.namespace, name)


def conflict(call: Call, why: str = MODIFIED, name: str = "") -> Conflict:
    name = name or call.name
    resource = call.resource
    return Conflict(
        f'Operation cannot be fulfilled on {resource.group_resource} "{name}": {why}',
        name=name,
        group=resource.group,
        kind=resource.plural,
    )
