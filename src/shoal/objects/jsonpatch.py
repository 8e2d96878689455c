"""JSON patch (RFC 6902) on decoded JSON, with the errors of kube-apiserver.

Inputs are never changed: containers on the path to a change are copied once, all others are shared. As upstream, a
negative index counts from the end, and `replace` of an absent member adds it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import orjson

from shoal.objects.errors import BadRequest, Invalid, TooLarge
from shoal.objects.mergepatch import same
from shoal.objects.strictjson import too_deep

MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 3 * 1024 * 1024
REJECTED = "the server rejected our request due to an error in our request"

_index = re.compile("[+-]?[0-9]{1,9}").fullmatch


class DoesNotApply(Exception):
    """The reason an operation failed. It is the cause of the `Invalid` sent to the client."""


def apply(original: Any, patch: Any) -> Any:
    """Returns the patched document. 400 for an invalid patch, 413 for too many operations, 422 for an operation that
    fails.
    """
    operations = _checked(patch)
    document = _Document(original)
    try:
        for operation in operations:
            kind = operation.get("op")
            act = _ACTS.get(kind) if isinstance(kind, str) else None
            if act is None:
                raise DoesNotApply(f"Unexpected kind: {kind if isinstance(kind, str) else 'unknown'}")
            act(document, operation)
        if document.nested and too_deep(document.root):
            raise DoesNotApply("the result is nested too deeply")
    except (DoesNotApply, RecursionError, orjson.JSONEncodeError) as error:
        raise Invalid(REJECTED) from error
    return document.root


def _checked(patch: Any) -> list[dict[str, Any]]:
    if not isinstance(patch, list):
        raise BadRequest(f"json: cannot unmarshal {_go_kind(patch)} into Go value of type jsonpatch.Patch")
    for operation in patch:
        if not isinstance(operation, dict):
            raise BadRequest(f"json: cannot unmarshal {_go_kind(operation)} into Go value of type jsonpatch.Operation")
    if len(patch) > MAX_OPERATIONS:
        raise TooLarge(
            "Request entity too large: "
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(patch)}"
        )
    return patch


def _go_kind(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case dict():
            return "object"
        case list():
            return "array"
    return "null" if value is None else "number"


class _Document:
    """The document being patched. `_owned` holds the containers copied here, the only ones that may be written to."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.copied = 0
        self.nested = False
        """A container was added in a new position. Only that can make the document deeper."""
        self._own: dict[int, Any] = {}

    def parent(self, pointer: str, missing: str, *, write: bool) -> tuple[Any, str]:
        """Returns the container of the pointer's target, and the target's key in it."""
        missing += ": missing value"
        tokens = pointer.split("/")
        if len(tokens) < 2 or tokens[0]:
            raise DoesNotApply(missing)
        if write:
            self.root = self._writable(self.root)
        here = self.root
        for token in tokens[1:-1]:
            key = _unescape(token)
            try:
                slot = _position(here, key) if isinstance(here, list) else key
                child = here[slot]
            except (DoesNotApply, KeyError, TypeError):
                raise DoesNotApply(missing) from None
            if not isinstance(child, dict | list):
                raise DoesNotApply(missing)
            if write:
                child = here[slot] = self._writable(child)
            here = child
        if not isinstance(here, dict | list):
            raise DoesNotApply(missing)
        return here, _unescape(tokens[-1])

    def _writable(self, container: Any) -> Any:
        if id(container) in self._own or not isinstance(container, dict | list):
            return container
        mine = container.copy()
        self._own[id(mine)] = mine
        return mine


def _add(document: _Document, operation: dict[str, Any]) -> None:
    path = _pointer(operation, "path", "add operation failed to decode path: missing value")
    missing = f'add operation does not apply: doc is missing path: "{path}"'
    _insert(document, path, operation.get("value"), missing, f"error in add for path: '{path}'")


def _remove(document: _Document, operation: dict[str, Any]) -> None:
    path = _pointer(operation, "path", "remove operation failed to decode path: missing value")
    where, key = document.parent(path, f'remove operation does not apply: doc is missing path: "{path}"', write=True)
    _delete(where, key, f"error in remove for path: '{path}'")


def _replace(document: _Document, operation: dict[str, Any]) -> None:
    path = _pointer(operation, "path", "replace operation failed to decode path: missing value")
    value = operation.get("value")
    if path == "":
        if not isinstance(value, dict | list):
            raise DoesNotApply("replace operation value must be object or array")
        document.root = value
        return
    where, key = document.parent(path, f"replace operation does not apply: doc is missing path: {path}", write=True)
    document.nested |= isinstance(value, dict | list)
    gone = f"replace operation does not apply: doc is missing key: {path}: missing value"
    where[_found(where, key, gone) if isinstance(where, list) else key] = value


def _move(document: _Document, operation: dict[str, Any]) -> None:
    source = _pointer(operation, "from", "move operation failed to decode from: missing value")
    where, key = document.parent(
        source, f"move operation does not apply: doc is missing from path: {source}", write=True
    )
    told = f"error in move for path: '{key}'"
    value = _get(where, key, told)
    _delete(where, key, told)
    path = _pointer(operation, "path", "move operation failed to decode path: missing value")
    missing = f"move operation does not apply: doc is missing destination path: {path}"
    _insert(document, path, value, missing, f"error in move for path: '{path}'")


def _copy(document: _Document, operation: dict[str, Any]) -> None:
    source = _pointer(operation, "from", "copy operation failed to decode from: missing value")
    where, key = document.parent(
        source, f"copy operation does not apply: doc is missing from path: {source}", write=False
    )
    value = _get(where, key, f"error in copy for from: '{source}'")
    path = _pointer(operation, "path", "copy operation failed to decode path: missing value")
    encoded = orjson.dumps(value)
    document.copied += len(encoded)
    if document.copied > MAX_COPIED_BYTES:
        raise DoesNotApply(
            "Unable to complete the copy, the accumulated size increase of copy is "
            f"{document.copied}, exceeding the limit {MAX_COPIED_BYTES}"
        )
    # A deep copy: later operations could not tell apart a container shared by two positions.
    value = orjson.loads(encoded)
    missing = f"copy operation does not apply: doc is missing destination path: {path}"
    _insert(document, path, value, missing, "error while adding value during copy")


def _test(document: _Document, operation: dict[str, Any]) -> None:
    path = _pointer(operation, "path", "test operation failed to decode path: missing value")
    if path == "":
        found = document.root
    else:
        where, key = document.parent(path, f"test operation does not apply: is missing path: {path}", write=False)
        found = _get(where, key, f"error in test for path: '{path}'")
    if not same(found, operation.get("value")):
        raise DoesNotApply(f"testing value {path} failed: test failed")


_ACTS: dict[str, Callable[[_Document, dict[str, Any]], None]] = {
    "add": _add, "remove": _remove, "replace": _replace, "move": _move, "copy": _copy, "test": _test,
}  # fmt: skip


def _pointer(operation: dict[str, Any], field: str, missing: str) -> str:
    pointer = operation.get(field)
    if not isinstance(pointer, str):
        raise DoesNotApply(missing)
    return pointer


def _get(where: Any, key: str, told: str) -> Any:
    if not isinstance(where, list):
        return where.get(key)
    return where[_found(where, key, told + ": {why}")]


def _insert(document: _Document, path: str, value: Any, missing: str, told: str) -> None:
    where, key = document.parent(path, missing, write=True)
    document.nested |= isinstance(value, dict | list)
    if isinstance(where, dict):
        where[key] = value
    elif key == "-":
        where.append(value)
    else:
        if not _index(key):
            told += f": value was not a proper array index: '{key}'"
        where.insert(_found(where, key, told + ": {why}", room=1), value)


def _delete(where: Any, key: str, told: str) -> None:
    if isinstance(where, list):
        del where[_found(where, key, told + ": {why}")]
    elif key in where:
        del where[key]
    else:
        raise DoesNotApply(f"{told}: Unable to remove nonexistent key: {key}: missing value")


def _found(where: list[Any], key: str, told: str, room: int = 0) -> int:
    """As `_array_index`, with the message of the operation."""
    try:
        return _position(where, key, room)
    except DoesNotApply as error:
        raise DoesNotApply(told.replace("{why}", str(error))) from None


def _position(where: list[Any], key: str, room: int = 0) -> int:
    if not _index(key):
        raise DoesNotApply(f'strconv.Atoi: parsing "{key}": invalid syntax')
    index, size = int(key), len(where) + room
    if not -size <= index < size:
        raise DoesNotApply(f"Unable to access invalid index: {index}: invalid index referenced")
    return index + size if index < 0 else index


def _unescape(token: str) -> str:
    return token.replace("~1", "/").replace("~0", "~") if "~" in token else token
