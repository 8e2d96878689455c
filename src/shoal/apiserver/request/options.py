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
    required_value,
    too_long,
)
from shoal.objects.selectors import parse_field_selector, parse_label_selector

EXACT, NOT_OLDER_THAN = "Exact", "NotOlderThan"
_TRUE = {"1", "t", "true", "True", "TRUE", "T"}
_FALSE = {"0", "f", "false", "False", "FALSE", "F", ""}


def parse_query(query: str) -> dict[str, str]:
    """The first value wins, as in Go's `Values.Get`. All values of `dryRun` are kept, one per line."""
    if not query:
        return {}
    values: dict[str, str] = {}
    try:
        for key, value in parse_qsl(query, keep_blank_values=True, max_num_fields=200):
            if key == "dryRun" and key in values:
                value = f"{values.pop(key)}\n{value}"
            values.setdefault(key, value)
    except ValueError as error:
        raise BadRequest(f"invalid query: {error}") from None
    return values


def parse_bool(query: Mapping[str, str], name: str) -> bool:
    text = query.get(name)
    if text is None or text in _FALSE:
        return False
    if text in _TRUE:
        return True
    # Go reads an unparsable boolean query parameter as true: it is present and not false.
    return True


def parse_int(query: Mapping[str, str], name: str) -> int:
    text = query.get(name, "")
    if not text:
        return 0
    digits = text[1:] if text[0] in "+-" else text
    if not (digits.isascii() and digits.isdigit()):
        raise BadRequest(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    if len(digits) > 19 or not -(2**63) <= int(text) < 2**63:
        raise BadRequest(f'strconv.ParseInt: parsing "{text}": value out of range')
    return int(text)


def parse_revision(text: str) -> int:
    """Parses the resourceVersion of a list or watch: decimal, not negative."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        reason = "value out of range" if text.isascii() and text.isdigit() else "invalid syntax"
        message = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": {reason}'
        raise BadRequest(f"invalid resource version: {message}")
    return int(text)


@dataclass(slots=True)
class ListOptions:
    label_selector: str = ""
    field_selector: str = ""
    resource_version: str = ""
    resource_version_match: str = ""
    limit: int = 0
    continue_token: str = ""
    """The `continue` parameter; see `apply_continue_token`."""
    continue_key: str = ""
    """The last key, from the continue token."""
    continue_revision: int = 0
    """The revision, from the continue token; -1 continues with the current state."""
    timeout_seconds: int = 0
    allow_bookmarks: bool = False
    send_initial_events: bool | None = None

    @property
    def revision(self) -> int:
        return parse_revision(self.resource_version)


def parse_list_options(query: Mapping[str, str], watching: bool) -> ListOptions:
    options = ListOptions(
        label_selector=query.get("labelSelector", ""),
        field_selector=query.get("fieldSelector", ""),
        resource_version=query.get("resourceVersion", ""),
        resource_version_match=query.get("resourceVersionMatch", ""),
        limit=parse_int(query, "limit"),
        continue_token=query.get("continue", ""),
        timeout_seconds=parse_int(query, "timeoutSeconds"),
        allow_bookmarks=parse_bool(query, "allowWatchBookmarks"),
        send_initial_events=parse_bool(query, "sendInitialEvents") if "sendInitialEvents" in query else None,
    )
    # Parse errors are reported before forbidden combinations.
    if options.label_selector:
        parse_label_selector(options.label_selector)
    if options.field_selector:
        parse_field_selector(options.field_selector)
    if watching and parse_bool(query, "watch"):
        _default_initial_events(options)
    if options.resource_version_match or options.send_initial_events is not None:
        causes = _watch_causes(options) if watching else _list_causes(options)
        if causes:
            raise invalid_object("ListOptions", "meta.k8s.io", "", causes)
    return options


def _default_initial_events(options: ListOptions) -> None:
    """A watch without a revision starts with the current state, followed by a bookmark if bookmarks are allowed."""
    unspecified = (
        options.send_initial_events is None
        and not options.resource_version_match
        and options.resource_version in ("", "0")
    )
    if unspecified and (options.allow_bookmarks or options.continue_token):
        options.send_initial_events, options.resource_version_match = True, NOT_OLDER_THAN


def apply_continue_token(options: ListOptions) -> None:
    """Applies the continue token of a list."""
    if options.continue_token:
        options.continue_revision, options.continue_key = decode_continue(options.continue_token)
        if options.resource_version and options.resource_version != "0":
            raise BadRequest("specifying resource version is not allowed when using continue")


def _list_causes(options: ListOptions) -> list[Cause]:
    causes = []
    field = "resourceVersionMatch"
    if options.resource_version_match:
        if not options.resource_version:
            causes.append(forbidden_field(field, f"{field} is forbidden unless resourceVersion is provided"))
        if options.continue_token:
            causes.append(forbidden_field(field, f"{field} is forbidden when continue is provided"))
        if options.resource_version_match not in (EXACT, NOT_OLDER_THAN):
            causes.append(not_supported(field, options.resource_version_match, [EXACT, NOT_OLDER_THAN, ""]))
        if options.resource_version_match == EXACT and options.resource_version == "0":
            causes.append(forbidden_field(field, f'{field} "exact" is forbidden for resourceVersion "0"'))
    if options.send_initial_events is not None:
        causes.append(forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return causes


def _watch_causes(options: ListOptions) -> list[Cause]:
    causes = []
    field = "resourceVersionMatch"
    if options.send_initial_events is not None and options.resource_version_match != NOT_OLDER_THAN:
        causes.append(forbidden_field(field, f"sendInitialEvents requires setting {field} to {NOT_OLDER_THAN}"))
    if options.resource_version_match:
        if options.send_initial_events is None:
            causes.append(
                forbidden_field(field, f"{field} is forbidden for watch unless sendInitialEvents is provided")
            )
        if options.resource_version_match != NOT_OLDER_THAN:
            causes.append(not_supported(field, options.resource_version_match, [NOT_OLDER_THAN]))
        if options.continue_token:
            causes.append(forbidden_field(field, f"{field} is forbidden when continue is provided"))
    return causes


_BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def encode_continue(revision: int, key: str) -> str:
    token = orjson.dumps({"v": "meta.k8s.io/v1", "rv": revision, "start": key + "\0"})
    return base64.urlsafe_b64encode(token).rstrip(b"=").decode()


def _continue_error(reason: str) -> BadRequest:
    return BadRequest(f"invalid continue token: continue key is not valid{reason}")


def decode_continue(token: str) -> tuple[int, str]:
    bad_byte = next((at for at, letter in enumerate(token) if letter not in _BASE64), -1)
    if bad_byte >= 0 or len(token) % 4 == 1:
        raise _continue_error(f": illegal base64 data at input byte {bad_byte if bad_byte >= 0 else len(token) - 1}")
    try:
        decoded = strictjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except BadRequest as error:
        raise _continue_error(f": {error.message}") from None
    if not isinstance(decoded, dict):
        raise _continue_error(": json: cannot unmarshal it into Go value of type storage.continueToken")
    version, at, start = decoded.get("v"), decoded.get("rv"), decoded.get("start")
    if version != "meta.k8s.io/v1":
        raise _continue_error(f": server does not recognize this encoded version {version or ''}")
    if not isinstance(at, int) or at == 0:
        raise _continue_error(": incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
    if not isinstance(start, str) or not start:
        raise _continue_error(": encoded start key empty (version meta.k8s.io/v1)")
    return at, start.removesuffix("\0")


def expired_continue(key: str) -> Expired:
    return Expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new "
        "list without the continue parameter, or use the continue token in this response to retrieve the "
        "remainder of the results. Continuing with the provided token results in an inconsistent list - objects "
        "that were created, modified, or deleted between the time the first chunk was returned and now may show "
        "up in the list.",
        continue_token=encode_continue(-1, key),
    )


@dataclass(slots=True)
class WriteOptions:
    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = "Warn"
    force: bool | None = None


def parse_write_options(query: Mapping[str, str], kind: str) -> WriteOptions:
    """`kind` names the options in the error: CreateOptions, UpdateOptions, PatchOptions."""
    if not query:
        return WriteOptions()
    causes: list[Cause] = []
    dry_run = query.get("dryRun")
    if dry_run is not None and set(values := dry_run.split("\n")) != {"All"}:
        causes.append(not_supported("dryRun", values, ["All"]))
    manager = query.get("fieldManager", "")
    if len(manager.encode()) > 128:
        causes.append(too_long("fieldManager", 128))
    unprintable = next((at for at, letter in enumerate(manager) if not letter.isprintable()), -1)
    if unprintable >= 0:
        message = f"invalid character U+{ord(manager[unprintable]):04X} (at position {unprintable})"
        causes.append(invalid_value("fieldManager", manager, message))
    validation = query.get("fieldValidation", "") or "Warn"
    if validation not in ("Ignore", "Warn", "Strict"):
        causes.append(not_supported("fieldValidation", validation, ["", "Ignore", "Strict", "Warn"]))
    if causes:
        raise invalid_object(kind, "meta.k8s.io", "", causes)
    return WriteOptions(
        dry_run is not None, manager, validation, parse_bool(query, "force") if "force" in query else None
    )


@dataclass(slots=True)
class DeleteOptions:
    dry_run: bool = False
    grace_period_seconds: int | None = None
    propagation_policy: str = ""
    uid: str = ""
    resource_version: str = ""


def parse_delete_options(query: Mapping[str, str], body: dict[str, Any] | None) -> DeleteOptions:
    """Reads the body if there is one, else the query. The body wins, as upstream."""
    causes: list[Cause] = []
    if body is None:
        body = {}
        if "gracePeriodSeconds" in query:
            body["gracePeriodSeconds"] = parse_int(query, "gracePeriodSeconds")
        if "propagationPolicy" in query:
            body["propagationPolicy"] = query["propagationPolicy"]
        if "orphanDependents" in query:
            body["orphanDependents"] = parse_bool(query, "orphanDependents")
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


def check_apply_options(options: WriteOptions) -> None:
    """Checks the further requirements of an apply patch."""
    if not options.field_manager:
        raise invalid_object(
            "PatchOptions", "meta.k8s.io", "", [required_value("fieldManager", "is required for apply patch")]
        )
