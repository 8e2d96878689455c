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
from shoal.objects.mergepatch import json_equal
from shoal.objects.strictjson import is_too_deep

MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 3 * 1024 * 1024
MAX_SHIFTED_ELEMENTS = 200_000_000
"""Elements of arrays that operations shift: about 0.2 s. 10,000 insertions at the front of 10,000 elements fit."""
REJECTED_MESSAGE = "the server rejected our request due to an error in our request"

_match_index = re.compile("[+-]?[0-9]{1,9}").fullmatch


class PatchError(Exception):
    """The reason an operation failed. It is the cause of the `Invalid` sent to the client."""


def apply(original: Any, patch: Any) -> Any:
    """Returns the patched document. 400 for an invalid patch, 413 for too many operations or too much work, 422 for an
    operation that fails.
    """
    operations = _validate_operations(patch)
    document = _PatchDocument(original)
    try:
        for operation in operations:
            kind = operation.get("op")
            apply_operation = _OPERATIONS.get(kind) if isinstance(kind, str) else None
            if apply_operation is None:
                raise PatchError(f"Unexpected kind: {kind if isinstance(kind, str) else 'unknown'}")
            apply_operation(document, operation)
        if document.may_be_deeper and is_too_deep(document.root):
            raise PatchError("the result is nested too deeply")
    except (PatchError, RecursionError, orjson.JSONEncodeError) as error:
        raise Invalid(REJECTED_MESSAGE) from error
    return document.root


def _validate_operations(patch: Any) -> list[dict[str, Any]]:
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


class _PatchDocument:
    """The document being patched. `_owned` holds the containers copied here, the only ones that may be written to."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.copied_bytes = 0
        self.shifted_elements = 0
        self.may_be_deeper = False
        """A container was added in a new position. Only that can make the document deeper."""
        self._owned: dict[int, Any] = {}

    def parent(self, pointer: str, missing: str, *, write: bool) -> tuple[Any, str]:
        """Returns the container of the pointer's target, and the target's key in it."""
        missing += ": missing value"
        tokens = pointer.split("/")
        if len(tokens) < 2 or tokens[0]:
            raise PatchError(missing)
        if write:
            self.root = self._writable(self.root)
        container = self.root
        for token in tokens[1:-1]:
            key = _unescape(token)
            try:
                slot = _array_index(container, key) if isinstance(container, list) else key
                child = container[slot]
            except (PatchError, KeyError, TypeError):
                raise PatchError(missing) from None
            if not isinstance(child, dict | list):
                raise PatchError(missing)
            if write:
                child = container[slot] = self._writable(child)
            container = child
        if not isinstance(container, dict | list):
            raise PatchError(missing)
        return container, _unescape(tokens[-1])

    def count_shifted(self, elements: int) -> None:
        self.shifted_elements += elements
        if self.shifted_elements > MAX_SHIFTED_ELEMENTS:
            raise TooLarge(
                "Request entity too large: "
                f"The allowed maximum of array elements that a JSON patch shifts is {MAX_SHIFTED_ELEMENTS}"
            )

    def _writable(self, container: Any) -> Any:
        if id(container) in self._owned or not isinstance(container, dict | list):
            return container
        copy = container.copy()
        self._owned[id(copy)] = copy
        return copy


def _add(document: _PatchDocument, operation: dict[str, Any]) -> None:
    path = _pointer(operation, "path", "add operation failed to decode path: missing value")
    missing = f'add operation does not apply: doc is missing path: "{path}"'
    _insert(document, path, operation.get("value"), missing, f"error in add for path: '{path}'")


def _remove(document: _PatchDocument, operation: dict[str, Any]) -> None:
    path = _pointer(operation, "path", "remove operation failed to decode path: missing value")
    where, key = document.parent(path, f'remove operation does not apply: doc is missing path: "{path}"', write=True)
    _delete(document, where, key, f"error in remove for path: '{path}'")


def _replace(document: _PatchDocument, operation: dict[str, Any]) -> None:
    path = _pointer(operation, "path", "replace operation failed to decode path: missing value")
    value = operation.get("value")
    if path == "":
        if not isinstance(value, dict | list):
            raise PatchError("replace operation value must be object or array")
        document.root = value
        return
    where, key = document.parent(path, f"replace operation does not apply: doc is missing path: {path}", write=True)
    document.may_be_deeper |= isinstance(value, dict | list)
    missing = f"replace operation does not apply: doc is missing key: {path}: missing value"
    where[_index_or_fail(where, key, missing) if isinstance(where, list) else key] = value


def _move(document: _PatchDocument, operation: dict[str, Any]) -> None:
    source = _pointer(operation, "from", "move operation failed to decode from: missing value")
    where, key = document.parent(
        source, f"move operation does not apply: doc is missing from path: {source}", write=True
    )
    context = f"error in move for path: '{key}'"
    value = _get(where, key, context)
    _delete(document, where, key, context)
    path = _pointer(operation, "path", "move operation failed to decode path: missing value")
    missing = f"move operation does not apply: doc is missing destination path: {path}"
    _insert(document, path, value, missing, f"error in move for path: '{path}'")


def _copy(document: _PatchDocument, operation: dict[str, Any]) -> None:
    source = _pointer(operation, "from", "copy operation failed to decode from: missing value")
    where, key = document.parent(
        source, f"copy operation does not apply: doc is missing from path: {source}", write=False
    )
    value = _get(where, key, f"error in copy for from: '{source}'")
    path = _pointer(operation, "path", "copy operation failed to decode path: missing value")
    encoded = orjson.dumps(value)
    document.copied_bytes += len(encoded)
    if document.copied_bytes > MAX_COPIED_BYTES:
        raise PatchError(
            "Unable to complete the copy, the accumulated size increase of copy is "
            f"{document.copied_bytes}, exceeding the limit {MAX_COPIED_BYTES}"
        )
    # A deep copy: later operations could not tell apart a container shared by two positions.
    value = orjson.loads(encoded)
    missing = f"copy operation does not apply: doc is missing destination path: {path}"
    _insert(document, path, value, missing, "error while adding value during copy")


def _test(document: _PatchDocument, operation: dict[str, Any]) -> None:
    path = _pointer(operation, "path", "test operation failed to decode path: missing value")
    if path == "":
        found = document.root
    else:
        where, key = document.parent(path, f"test operation does not apply: is missing path: {path}", write=False)
        found = _get(where, key, f"error in test for path: '{path}'")
    if not json_equal(found, operation.get("value")):
        raise PatchError(f"testing value {path} failed: test failed")


_OPERATIONS: dict[str, Callable[[_PatchDocument, dict[str, Any]], None]] = {
    "add": _add, "remove": _remove, "replace": _replace, "move": _move, "copy": _copy, "test": _test,
}  # fmt: skip


def _pointer(operation: dict[str, Any], field: str, missing: str) -> str:
    pointer = operation.get(field)
    if not isinstance(pointer, str):
        raise PatchError(missing)
    return pointer


def _get(container: Any, key: str, context: str) -> Any:
    if not isinstance(container, list):
        return container.get(key)
    return container[_index_or_fail(container, key, context + ": {why}")]


def _insert(document: _PatchDocument, path: str, value: Any, missing: str, context: str) -> None:
    where, key = document.parent(path, missing, write=True)
    document.may_be_deeper |= isinstance(value, dict | list)
    if isinstance(where, dict):
        where[key] = value
    elif key == "-":
        where.append(value)
    else:
        if not _match_index(key):
            context += f": value was not a proper array index: '{key}'"
        index = _index_or_fail(where, key, context + ": {why}", room=1)
        document.count_shifted(len(where) - index)
        where.insert(index, value)


def _delete(document: _PatchDocument, container: Any, key: str, context: str) -> None:
    if isinstance(container, list):
        index = _index_or_fail(container, key, context + ": {why}")
        document.count_shifted(len(container) - index)
        del container[index]
    elif key in container:
        del container[key]
    else:
        raise PatchError(f"{context}: Unable to remove nonexistent key: {key}: missing value")


def _index_or_fail(items: list[Any], key: str, message: str, room: int = 0) -> int:
    """As `_array_index`, with the message of the operation."""
    try:
        return _array_index(items, key, room)
    except PatchError as error:
        raise PatchError(message.replace("{why}", str(error))) from None


def _array_index(items: list[Any], key: str, room: int = 0) -> int:
    if not _match_index(key):
        raise PatchError(f'strconv.Atoi: parsing "{key}": invalid syntax')
    index, size = int(key), len(items) + room
    if not -size <= index < size:
        raise PatchError(f"Unable to access invalid index: {index}: invalid index referenced")
    return index + size if index < 0 else index


def _unescape(token: str) -> str:
    return token.replace("~1", "/").replace("~0", "~") if "~" in token else token
