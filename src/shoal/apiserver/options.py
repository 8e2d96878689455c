"""Parses and validates query parameters as upstream does.

`ListOptions` serves list, watch and deletecollection; `WriteOptions` serves every write.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

import orjson

from shoal.objects import strictjson
from shoal.objects.errors import (
    BadRequest,
    Cause,
    Expired,
    forbidden_field,
    invalid_object,
    invalid_value,
    not_supported,
    required,
    too_long,
)
from shoal.objects.selectors import parse_fields, parse_labels

EXACT, NOT_OLDER = "Exact", "NotOlderThan"
_TRUE = {"1", "t", "true", "True", "TRUE", "T"}
_FALSE = {"0", "f", "false", "False", "FALSE", "F", ""}


def parse_query(query: str) -> dict[str, str]:
    """The first value wins, as in Go's `Values.Get`. All values of `dryRun` are kept, one per line."""
    if not query:
        return {}
    found: dict[str, str] = {}
    try:
        for key, value in parse_qsl(query, keep_blank_values=True, max_num_fields=200):
            if key == "dryRun" and key in found:
                value = f"{found.pop(key)}\n{value}"
            found.setdefault(key, value)
    except ValueError as error:
        raise BadRequest(f"invalid query: {error}") from None
    return found


def boolean(query: Mapping[str, str], name: str) -> bool:
    text = query.get(name)
    if text is None or text in _FALSE:
        return False
    if text in _TRUE:
        return True
    # Go reads an unparsable boolean query parameter as true: it is present and not false.
    return True


def integer(query: Mapping[str, str], name: str) -> int:
    text = query.get(name, "")
    if not text:
        return 0
    digits = text[1:] if text[0] in "+-" else text
    if not (digits.isascii() and digits.isdigit()):
        raise BadRequest(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    if len(digits) > 19 or not -(2**63) <= int(text) < 2**63:
        raise BadRequest(f'strconv.ParseInt: parsing "{text}": value out of range')
    return int(text)


def revision(text: str) -> int:
    """Parses the resourceVersion of a list or watch: decimal, not negative."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        why = "value out of range" if text.isascii() and text.isdigit() else "invalid syntax"
        said = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": {why}'
        raise BadRequest(f"invalid resource version: {said}")
    return int(text)


@dataclass(slots=True)
class ListOptions:
    labels: str = ""
    fields: str = ""
    resource_version: str = ""
    match: str = ""
    limit: int = 0
    token: str = ""
    """The `continue` parameter; see `apply_continue_token`."""
    after: str = ""
    """The last key, from the continue token."""
    at: int = 0
    """The revision, from the continue token; -1 continues with the current state."""
    timeout: int = 0
    bookmarks: bool = False
    send_initial: bool | None = None

    @property
    def revision(self) -> int:
        return revision(self.resource_version)


def list_options(query: Mapping[str, str], watching: bool) -> ListOptions:
    options = ListOptions(
        labels=query.get("labelSelector", ""),
        fields=query.get("fieldSelector", ""),
        resource_version=query.get("resourceVersion", ""),
        match=query.get("resourceVersionMatch", ""),
        limit=integer(query, "limit"),
        token=query.get("continue", ""),
        timeout=integer(query, "timeoutSeconds"),
        bookmarks=boolean(query, "allowWatchBookmarks"),
        send_initial=boolean(query, "sendInitialEvents") if "sendInitialEvents" in query else None,
    )
    # Parse errors are reported before forbidden combinations.
    if options.labels:
        parse_labels(options.labels)
    if options.fields:
        parse_fields(options.fields)
    if watching and boolean(query, "watch"):
        _begin_with_state(options)
    if options.match or options.send_initial is not None:
        causes = _watch_causes(options) if watching else _list_causes(options)
        if causes:
            raise invalid_object("ListOptions", "meta.k8s.io", "", causes)
    return options


def _begin_with_state(options: ListOptions) -> None:
    """A watch without a revision starts with the current state, followed by a bookmark if bookmarks are allowed."""
    unasked = options.send_initial is None and not options.match and options.resource_version in ("", "0")
    if unasked and (options.bookmarks or options.token):
        options.send_initial, options.match = True, NOT_OLDER


def resume(options: ListOptions) -> None:
    """Applies the continue token of a list."""
    if options.token:
        options.at, options.after = decode_continue(options.token)
        if options.resource_version and options.resource_version != "0":
            raise BadRequest("specifying resource version is not allowed when using continue")


def _list_causes(options: ListOptions) -> list[Cause]:
    causes = []
    field = "resourceVersionMatch"
    if options.match:
        if not options.resource_version:
            causes.append(forbidden_field(field, f"{field} is forbidden unless resourceVersion is provided"))
        if options.token:
            causes.append(forbidden_field(field, f"{field} is forbidden when continue is provided"))
        if options.match not in (EXACT, NOT_OLDER):
            causes.append(not_supported(field, options.match, [EXACT, NOT_OLDER, ""]))
        if options.match == EXACT and options.resource_version == "0":
            causes.append(forbidden_field(field, f'{field} "exact" is forbidden for resourceVersion "0"'))
    if options.send_initial is not None:
        causes.append(forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return causes


def _watch_causes(options: ListOptions) -> list[Cause]:
    causes = []
    field = "resourceVersionMatch"
    if options.send_initial is not None and options.match != NOT_OLDER:
        causes.append(forbidden_field(field, f"sendInitialEvents requires setting {field} to {NOT_OLDER}"))
    if options.match:
        if options.send_initial is None:
            causes.append(
                forbidden_field(field, f"{field} is forbidden for watch unless sendInitialEvents is provided")
            )
        if options.match != NOT_OLDER:
            causes.append(not_supported(field, options.match, [NOT_OLDER]))
        if options.token:
            causes.append(forbidden_field(field, f"{field} is forbidden when continue is provided"))
    return causes


_BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def encode_continue(at: int, after: str) -> str:
    token = orjson.dumps({"v": "meta.k8s.io/v1", "rv": at, "start": after + "\0"})
    return base64.urlsafe_b64encode(token).rstrip(b"=").decode()


def _bad_token(why: str) -> BadRequest:
    return BadRequest(f"invalid continue token: continue key is not valid{why}")


def decode_continue(token: str) -> tuple[int, str]:
    wrong = next((at for at, letter in enumerate(token) if letter not in _BASE64), -1)
    if wrong >= 0 or len(token) % 4 == 1:
        raise _bad_token(f": illegal base64 data at input byte {wrong if wrong >= 0 else len(token) - 1}")
    try:
        found = strictjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except BadRequest as error:
        raise _bad_token(f": {error.message}") from None
    if not isinstance(found, dict):
        raise _bad_token(": json: cannot unmarshal it into Go value of type storage.continueToken")
    version, at, start = found.get("v"), found.get("rv"), found.get("start")
    if version != "meta.k8s.io/v1":
        raise _bad_token(f": server does not recognize this encoded version {version or ''}")
    if not isinstance(at, int) or at == 0:
        raise _bad_token(": incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
    if not isinstance(start, str) or not start:
        raise _bad_token(": encoded start key empty (version meta.k8s.io/v1)")
    return at, start.removesuffix("\0")


def expired_continue(after: str) -> Expired:
    return Expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new "
        "list without the continue parameter, or use the continue token in this response to retrieve the "
        "remainder of the results. Continuing with the provided token results in an inconsistent list - objects "
        "that were created, modified, or deleted between the time the first chunk was returned and now may show "
        "up in the list.",
        continue_token=encode_continue(-1, after),
    )


@dataclass(slots=True)
class WriteOptions:
    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = "Warn"
    force: bool | None = None


def write_options(query: Mapping[str, str], kind: str) -> WriteOptions:
    """`kind` names the options in the error: CreateOptions, UpdateOptions, PatchOptions."""
    if not query:
        return WriteOptions()
    causes: list[Cause] = []
    dry_run = query.get("dryRun")
    if dry_run is not None and set(asked := dry_run.split("\n")) != {"All"}:
        causes.append(not_supported("dryRun", asked, ["All"]))
    manager = query.get("fieldManager", "")
    if len(manager.encode()) > 128:
        causes.append(too_long("fieldManager", 128))
    strange = next((at for at, letter in enumerate(manager) if not letter.isprintable()), -1)
    if strange >= 0:
        said = f"invalid character U+{ord(manager[strange]):04X} (at position {strange})"
        causes.append(invalid_value("fieldManager", manager, said))
    validation = query.get("fieldValidation", "") or "Warn"
    if validation not in ("Ignore", "Warn", "Strict"):
        causes.append(not_supported("fieldValidation", validation, ["", "Ignore", "Strict", "Warn"]))
    if causes:
        raise invalid_object(kind, "meta.k8s.io", "", causes)
    return WriteOptions(dry_run is not None, manager, validation, boolean(query, "force") if "force" in query else None)


@dataclass(slots=True)
class DeleteOptions:
    dry_run: bool = False
    grace: int | None = None
    policy: str = ""
    uid: str = ""
    resource_version: str = ""


def delete_options(query: Mapping[str, str], body: dict[str, Any] | None) -> DeleteOptions:
    """Reads the body if there is one, else the query. The body wins, as upstream."""
    causes: list[Cause] = []
    if body is None:
        body = {}
        if "gracePeriodSeconds" in query:
            body["gracePeriodSeconds"] = integer(query, "gracePeriodSeconds")
        if "propagationPolicy" in query:
            body["propagationPolicy"] = query["propagationPolicy"]
        if "orphanDependents" in query:
            body["orphanDependents"] = boolean(query, "orphanDependents")
        if "dryRun" in query:
            body["dryRun"] = query["dryRun"].split("\n")
    dry_run = body.get("dryRun") or []
    if not isinstance(dry_run, list) or any(item != "All" for item in dry_run):
        causes.append(not_supported("dryRun", dry_run, ["All"]))
    policy = body.get("propagationPolicy")
    orphan = body.get("orphanDependents")
    if policy is not None and orphan is not None:
        causes.append(
            invalid_value("propagationPolicy", policy, "orphanDependents and deletionPropagation cannot be both set")
        )
    if policy not in (None, "Foreground", "Background", "Orphan"):
        causes.append(not_supported("propagationPolicy", policy, ["Foreground", "Background", "Orphan", "nil"]))
    grace = body.get("gracePeriodSeconds")
    preconditions = body.get("preconditions") or {}
    if not isinstance(preconditions, dict) or not isinstance(grace, int | None):
        raise BadRequest("the object provided is unrecognized (must be of type DeleteOptions)")
    if causes:
        raise invalid_object("DeleteOptions", "meta.k8s.io", "", causes)
    if orphan is not None and not policy:
        policy = "Orphan" if orphan else "Background"
    return DeleteOptions(
        bool(dry_run),
        grace,
        policy or "",
        str(preconditions.get("uid") or ""),
        str(preconditions.get("resourceVersion") or ""),
    )


def apply_options(options: WriteOptions) -> None:
    """Checks the further requirements of an apply patch."""
    if not options.field_manager:
        raise invalid_object(
            "PatchOptions", "meta.k8s.io", "", [required("fieldManager", "is required for apply patch")]
        )
