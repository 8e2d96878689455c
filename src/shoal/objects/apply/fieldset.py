"""Field sets in wire form: nested FieldsV1 dicts.

A node `{}` is a member leaf. A node with children is itself a member only if it contains `.`. The root is never a
member, so `{}` at the root is the empty set. Sets are kept in wire order and never mutated: every operation returns a
new dict that may share subtrees with its inputs. `compare` decides which fields an object has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import orjson

from shoal.objects.text_cache import cached_by_text

FieldSet: TypeAlias = dict[str, Any]

_ESCAPES = {code: f"\\u{code:04x}" for code in (*range(32), ord("<"), ord(">"), ord("&"), 0x2028, 0x2029)}
_ESCAPES |= {ord('"'): '\\"', ord("\\"): "\\\\", ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}
_GO_ESCAPES = {'"': '\\"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def is_member(node: FieldSet) -> bool:
    """True if the path of a node is itself in the set, not only something below it."""
    return not node or "." in node


def union(one: FieldSet, two: FieldSet) -> FieldSet:
    if not one or not two:
        return one or two
    out = dict(one)
    has_new_keys = False
    for key, other in two.items():
        own = out.get(key)
        if own is None:
            out[key], has_new_keys = other, True
        elif not own:
            out[key] = {".": {}, **other} if other else own
        elif not other:
            out[key] = {".": {}, **own}
        else:
            out[key] = union(own, other)
    return sort_level(out) if has_new_keys else out


def union_all(sets: list[FieldSet]) -> FieldSet:
    """Merges in pairs, so that many sets cost no more than sorting them would."""
    while len(sets) > 1:
        pairs = zip(sets[::2], sets[1::2], strict=False)
        sets = [union(one, two) for one, two in pairs] + (sets[-1:] if len(sets) % 2 else [])
    return sets[0] if sets else {}


def difference(one: FieldSet, two: FieldSet) -> FieldSet:
    """Returns `one` without the paths of `two`. Removing a parent leaves its children, and the reverse."""
    out = dict(one)
    for key, other in two.items():
        own = out.get(key)
        if own is None:
            continue
        if not own:
            if is_member(other):
                del out[key]
            continue
        remainder = difference(own, other or {".": {}})
        if not remainder:
            del out[key]
        else:
            out[key] = _collapse_leaf(remainder)
    return out


def intersection(one: FieldSet, two: FieldSet) -> FieldSet:
    out: FieldSet = {}
    for key, own in one.items():
        other = two.get(key)
        if other is None:
            continue
        if not own or not other:
            if is_member(own) and is_member(other):
                out[key] = {}
            continue
        both = intersection(own, other)
        if both:
            out[key] = _collapse_leaf(both)
    return out


def recursive_difference(fields: FieldSet, roots: FieldSet) -> FieldSet:
    """Returns `fields` without the paths in `roots` and everything below them."""
    out = dict(fields)
    for key, root in roots.items():
        own = out.get(key)
        if own is None or key == ".":
            continue
        if is_member(root):
            del out[key]
        elif own:
            remainder = recursive_difference(own, root)
            if remainder:
                out[key] = _collapse_leaf(remainder)
            else:
                del out[key]
    return out


def leaves(fields: FieldSet) -> FieldSet:
    """Returns only the paths that have nothing below them."""
    return {key: leaves(node) for key, node in fields.items() if key != "."}


def path_strings(fields: FieldSet, prefix: str = "") -> Iterator[str]:
    """Yields every path in upstream's notation and order: the members of a level, then what is below them."""
    for key, node in fields.items():
        if key != "." and is_member(node):
            yield prefix + format_element(key)
    for key, node in fields.items():
        if node:
            yield from path_strings(node, prefix + format_element(key))


def sort_level(fields: FieldSet) -> FieldSet:
    """Sorts one level in upstream's order. The levels below stay as they are."""
    keys = sorted(fields)
    if keys[-1] >= "i:":
        keys.sort(key=_element_sort_key)
    return {key: fields[key] for key in keys}


def decode(raw: object) -> FieldSet:
    """Decodes FieldsV1 from the wire. Raises ValueError for invalid input. Drops elements of a future format."""
    if type(raw) is dict and _is_canonical(raw):
        return raw
    fields = _decode(raw)
    return {} if list(fields) == ["."] else fields


def _decode(raw: object) -> FieldSet:
    if raw is None:
        return {}
    if type(raw) is not dict:
        raise ValueError(f"a FieldsV1 node must be an object, got {type(raw).__name__}")
    out: FieldSet = {}
    for key, node in raw.items():
        if key == ".":
            out["."] = {}
            continue
        element = canonical_element(key)
        if element is not None:
            out[element] = _collapse_leaf(_decode(node))
    return sort_level(out) if len(out) > 1 else out


def _is_canonical(fields: FieldSet) -> bool:
    """Checks without copying. Nearly every incoming set was written by this server and is canonical."""
    last = ""
    for key, node in fields.items():
        if type(node) is not dict:
            return False
        if key[:2] == "f:":
            if key <= last:
                return False
            last = key
        elif key == ".":
            if node or last or len(fields) == 1:
                return False
        else:
            return _has_canonical_elements(fields)
        if node and not _is_canonical(node):
            return False
    return True


def _has_canonical_elements(fields: FieldSet) -> bool:
    last: tuple[Any, ...] = ()
    for key, node in fields.items():
        try:
            if type(node) is not dict or (key != "." and canonical_element(key) != key):
                return False
        except ValueError:
            return False
        rank = _element_sort_key(key)
        if rank <= last or (key == "." and (node or len(fields) == 1)) or (node and not _is_canonical(node)):
            return False
        last = rank
    return True


def _collapse_leaf(node: FieldSet) -> FieldSet:
    """A node left with nothing but its own `.` is a leaf."""
    return {} if len(node) == 1 and "." in node else node


# --- path elements: f:name, k:{"name":"a"}, v:"a", i:0 ---


@cached_by_text(8192)
def json_string(text: str) -> str:
    """Encodes a JSON string as upstream's encoder does inside a path element."""
    return '"' + text.translate(_ESCAPES) + '"'


def json_value(value: object) -> str:
    if type(value) is str:
        return json_string(value)
    if type(value) is float and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    if type(value) is dict:
        return "{" + ",".join(f"{json_string(name)}:{json_value(value[name])}" for name in sorted(value)) + "}"
    if type(value) is list:
        return "[" + ",".join(map(json_value, value)) + "]"
    return str(value) if type(value) is int else orjson.dumps(value).decode()


@cached_by_text(8192)
def canonical_element(key: str) -> str | None:
    """Returns the canonical form of an element. None for an unknown kind of element. ValueError if malformed."""
    if len(key) < 2:
        raise ValueError("key must be 2 characters long:")
    if key[1] != ":":
        raise ValueError(f"missing colon: {key}")
    kind, text = key[0], key[2:]
    if kind == "f":
        return key
    if kind not in "kvi":
        return None
    if kind == "i":
        return f"i:{int(text)}"
    value = orjson.loads(text)
    if kind == "k" and type(value) is not dict:
        raise ValueError(f"expected an object of key fields: {key}")
    return f"{kind}:{json_value(value)}"


def format_element(key: str) -> str:
    """Formats an element for messages: `.name`, `[name="a"]`, `[="a"]`, `[0]`."""
    kind, text = key[0], key[2:]
    if kind == "f":
        return "." + text
    if kind == "i":
        return f"[{text}]"
    value = orjson.loads(text)
    if kind == "v":
        return f"[={_format_value(value)}]"
    return "[" + ",".join(f"{name}={_format_value(value[name])}" for name in sorted(value)) + "]"


def go_quote(text: str) -> str:
    """Quotes as Go's %q does."""
    out = []
    for char in text:
        code = ord(char)
        if char in _GO_ESCAPES:
            out.append(_GO_ESCAPES[char])
        elif char.isprintable():
            out.append(char)
        else:
            width = "\\x%02x" if code < 0x80 else "\\u%04x" if code < 0x10000 else "\\U%08x"
            out.append("\\v" if char == "\v" else width % code)
    return '"' + "".join(out) + '"'


def _format_value(value: object) -> str:
    if type(value) is str:
        return go_quote(value)
    if type(value) is list:
        return "[" + ",".join(map(_format_value, value)) + "]"
    if type(value) is dict:
        return "".join(f"{name}={_format_value(value[name])}" for name in sorted(value))
    return json_value(value)


@cached_by_text(8192)
def _element_sort_key(key: str) -> tuple[Any, ...]:
    kind, text = key[0], key[2:]
    if kind == ".":
        return (0,)
    if kind == "f":
        return (1, text)
    if kind == "i":
        return (4, int(text))
    value = orjson.loads(text)
    if kind == "k":
        return (2, *((name, *_value_sort_key(value[name])) for name in sorted(value)))
    return (3, *_value_sort_key(value))


def _value_sort_key(value: object) -> tuple[int, Any]:
    """Numbers sort before strings before booleans. Other values cannot be keys, so they sort by their text."""
    if type(value) is str:
        return (1, value)
    if type(value) is bool:
        return (2, value)
    if isinstance(value, int | float):
        return (0, value)
    return (3, json_value(value))
