"""The one exception tree, and the Status each error becomes on the wire.

ShoalError
├── StatusError                  an answer to a request, in both directions (server raises, client raises)
│   ├── BadRequest          400  BadRequest
│   ├── Unauthorized        401  Unauthorized
│   ├── Forbidden           403  Forbidden
│   ├── NotFound            404  NotFound
│   ├── MethodNotSupported  405  MethodNotAllowed
│   ├── NotAcceptable       406  NotAcceptable
│   ├── AlreadyExists       409  AlreadyExists
│   ├── Conflict            409  Conflict
│   ├── Expired             410  Expired
│   ├── TooLarge            413  RequestEntityTooLarge
│   ├── UnsupportedMedia    415  UnsupportedMediaType
│   ├── Invalid             422  Invalid
│   ├── TooManyRequests     429  TooManyRequests
│   ├── InternalError       500  InternalError
│   ├── NotImplementedHere  501  NotImplemented (refused by name)
│   ├── Unavailable         503  ServiceUnavailable
│   └── TimedOut            504  Timeout
└── StoreError                   what a store says; never reaches the wire as it is (see `store.interface`)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, ClassVar


class ShoalError(Exception):
    """Root of everything Shoal raises on purpose."""


class TooCostlyForLoopError(ShoalError):
    """Expressions cost more than an event loop may spend at once. They have to be evaluated elsewhere, or in slices."""


class StoreError(ShoalError):
    """Root of the errors a store raises."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One `details.causes[]` entry. `field` is a path such as `spec.ports[0].name`."""

    reason: str
    message: str
    field: str = ""

    def to_wire(self) -> dict[str, str]:
        out = {"reason": self.reason, "message": self.message} if self.reason else {"message": self.message}
        if self.field:
            out["field"] = self.field
        return out


class StatusError(ShoalError):
    code: ClassVar[int] = 500
    reason: ClassVar[str] = "InternalError"
    always_has_details: bool = False
    """`details` is written even if it is empty, as upstream does for some reasons."""
    cluster: str = ""
    """In a client: the logical cluster that it named in the request."""

    def __init__(
        self,
        message: str,
        *,
        name: str = "",
        group: str = "",
        kind: str = "",
        uid: str = "",
        causes: Iterable[Cause] = (),
        retry_after: int = 0,
        continue_token: str = "",
        code: int = 0,
        reason: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.name, self.group, self.kind, self.uid = name, group, kind, uid
        self.causes = tuple(causes)
        self.retry_after = retry_after
        self.continue_token = continue_token
        self.status_code = code or self.code
        self.status_reason = reason or self.reason

    def to_status(self) -> dict[str, Any]:
        """Returns the `v1.Status` object of this error."""
        details: dict[str, Any] = {}
        for key, value in (("name", self.name), ("group", self.group), ("kind", self.kind), ("uid", self.uid)):
            if value:
                details[key] = value
        if self.causes:
            details["causes"] = [cause.to_wire() for cause in self.causes]
        if self.retry_after:
            details["retryAfterSeconds"] = self.retry_after
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.continue_token} if self.continue_token else {},
            "status": "Failure",
            "message": self.message,
            "reason": self.status_reason,
        }
        if details or self.always_has_details:
            status["details"] = details
        status["code"] = self.status_code
        return status


class BadRequest(StatusError):
    code, reason = 400, "BadRequest"


class Unauthorized(StatusError):
    code, reason = 401, "Unauthorized"


class Forbidden(StatusError):
    code, reason = 403, "Forbidden"
    always_has_details = True

    @property
    def is_permission_missing(self) -> bool:
        """Whether authorization refused the request. Admission refuses with the same code: quotas, limits, policies,
        and namespaces that are being deleted.
        """
        return self.message.partition("forbidden: ")[2].startswith('User "')


class NotFound(StatusError):
    code, reason = 404, "NotFound"
    always_has_details = True


class MethodNotSupported(StatusError):
    code, reason = 405, "MethodNotAllowed"
    always_has_details = True


class NotAcceptable(StatusError):
    code, reason = 406, "NotAcceptable"


class AlreadyExists(StatusError):
    code, reason = 409, "AlreadyExists"


class Conflict(StatusError):
    code, reason = 409, "Conflict"


class Expired(StatusError):
    code, reason = 410, "Expired"


class TooLarge(StatusError):
    code, reason = 413, "RequestEntityTooLarge"


class UnsupportedMedia(StatusError):
    code, reason = 415, "UnsupportedMediaType"


class Invalid(StatusError):
    code, reason = 422, "Invalid"
    always_has_details = True


class TooManyRequests(StatusError):
    code, reason = 429, "TooManyRequests"


class InternalError(StatusError):
    code, reason = 500, "InternalError"


class NotImplementedHere(StatusError):
    code, reason = 501, "NotImplemented"


class Unavailable(StatusError):
    code, reason = 503, "ServiceUnavailable"


class TimedOut(StatusError):
    code, reason = 504, "Timeout"


_BY_REASON: dict[str, type[StatusError]] = {
    cls.reason: cls
    for cls in (
        BadRequest, Unauthorized, Forbidden, NotFound, MethodNotSupported, NotAcceptable, AlreadyExists,
        Conflict, Expired, TooLarge, UnsupportedMedia, Invalid, TooManyRequests, InternalError,
        NotImplementedHere, Unavailable, TimedOut,
    )
}  # fmt: skip
_BY_CODE: dict[int, type[StatusError]] = {cls.code: cls for cls in reversed(_BY_REASON.values())}


def from_status(status: Mapping[str, Any], http_code: int) -> StatusError:
    """Returns the exception a client raises for a failed response."""
    details = status.get("details") or {}
    code = int(status.get("code") or http_code)
    cls = _BY_REASON.get(str(status.get("reason", ""))) or _BY_CODE.get(code) or StatusError
    error = cls(
        str(status.get("message") or f"the server answered {http_code}"),
        name=str(details.get("name", "")),
        group=str(details.get("group", "")),
        kind=str(details.get("kind", "")),
        uid=str(details.get("uid", "")),
        causes=[
            Cause(str(c.get("reason", "")), str(c.get("message", "")), str(c.get("field", "")))
            for c in details.get("causes") or ()
        ],
        retry_after=int(details.get("retryAfterSeconds") or 0),
        continue_token=str((status.get("metadata") or {}).get("continue", "")),
        code=code,
        reason=str(status.get("reason", "")),
    )
    error.always_has_details = "details" in status
    return error


def from_text(text: bytes, http_code: int) -> StatusError:
    """Returns the exception for a response that is not a Status. A plain-text 404 means that the path does not
    exist.
    """
    not_found = "the server could not find the requested resource"
    message = not_found if http_code == 404 else text[:200].decode(errors="replace")
    return from_status({"message": message}, http_code)


# --- field errors with upstream's messages (k8s.io/apimachinery/pkg/util/validation/field) ---


def required_value(path: str, detail: str = "") -> Cause:
    return Cause("FieldValueRequired", _field_message(path, "Required value", detail), path)


def invalid_value(path: str, value: object, detail: str) -> Cause:
    return Cause("FieldValueInvalid", _field_message(path, f"Invalid value: {format_value(value)}", detail), path)


def type_invalid(path: str, value: object, detail: str) -> Cause:
    return Cause("FieldValueTypeInvalid", _field_message(path, f"Invalid value: {format_value(value)}", detail), path)


def not_supported(path: str, value: object, supported: Iterable[str]) -> Cause:
    choices = ", ".join(f'"{choice}"' for choice in supported)
    detail = f"supported values: {choices}" if choices else ""
    return Cause(
        "FieldValueNotSupported", _field_message(path, f"Unsupported value: {format_value(value)}", detail), path
    )


def duplicate(path: str, value: object) -> Cause:
    return Cause("FieldValueDuplicate", _field_message(path, f"Duplicate value: {format_value(value)}", ""), path)


def forbidden_field(path: str, detail: str) -> Cause:
    return Cause("FieldValueForbidden", _field_message(path, "Forbidden", detail), path)


def too_long(path: str, limit: int) -> Cause:
    return Cause(
        "FieldValueTooLong", _field_message(path, "Too long", f"may not be more than {pluralize(limit, 'byte')}"), path
    )


def too_many(path: str, actual: int, limit: int) -> Cause:
    return Cause(
        "FieldValueTooMany",
        _field_message(path, f"Too many: {actual}", f"must have at most {pluralize(limit, 'item')}"),
        path,
    )


MAX_MESSAGE_LENGTH, MAX_CAUSES = 100_000, 1000
"""Characters and number of the causes of a refusal. Upstream has no limit."""


def invalid_object(kind: str, group: str, name: str, causes: Iterable[Cause]) -> Invalid:
    """Returns `422 Invalid` for an object. As upstream, its message lists every cause.

    A cause's message carries no path on the wire; the summary does. Beyond the limits, causes are only counted: a body
    of three megabytes could have an answer of a hundred.
    """
    cause_list = list(causes)
    count = len(cause_list)
    sizes = accumulate(len(cause.message) for cause in cause_list[:MAX_CAUSES])
    del cause_list[max(1, sum(size <= MAX_MESSAGE_LENGTH for size in sizes)) :]
    messages = list(dict.fromkeys(c.message for c in cause_list))
    if len(cause_list) < count:
        messages.append(f"and {pluralize(count - len(cause_list), 'more error')}")
    summary = messages[0] if len(messages) == 1 else "[" + ", ".join(messages) + "]"
    title = f"{kind}.{group}" if group else kind
    bare = [Cause(c.reason, c.message.removeprefix(c.field + ": "), c.field) for c in cause_list]
    return Invalid(f'{title} "{name}" is invalid: {summary}', name=name, group=group, kind=kind, causes=bare)


MAX_VALUE_LENGTH = 2000
"""Characters of a value in a message. Upstream writes all of it, in each of perhaps thousands of errors."""
_encode_lazily = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).iterencode


def format_value(value: object) -> str:
    """Formats a value as Go's field errors do: strings quoted, composites as JSON. A long one is cut."""
    if isinstance(value, str):
        return go_quote(value if len(value) <= MAX_VALUE_LENGTH else f"{value[:MAX_VALUE_LENGTH]}...")
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return _encode_start(value)
    return str(value)


def _encode_start(value: object) -> str:
    pieces, size = [], 0
    for piece in _encode_lazily(value):
        pieces.append(piece[:MAX_VALUE_LENGTH])
        size += len(piece)
        if size > MAX_VALUE_LENGTH:
            return "".join(pieces)[:MAX_VALUE_LENGTH] + "..."
    return "".join(pieces)


_GO_ESCAPES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
            '"': '\\"', "\\": "\\\\"}  # fmt: skip


def go_quote(text: str) -> str:
    """Quotes a string as Go's %q does."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{"".join(_GO_ESCAPES.get(each) or _go_escape_char(each) for each in text)}"'


def _go_escape_char(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def pluralize(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _field_message(path: str, what: str, detail: str) -> str:
    return f"{path}: {what}" + (f": {detail}" if detail else "")
