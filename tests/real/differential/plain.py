"""An answer without what differs from one server, or one moment, to the next. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

from shoal.objects.errors import StatusError
from shoal.objects.protobuf import decode
from tests.real.differential.asking import Reply

Object = dict[str, Any]
HEADERS = ("content-type", "warning", "cache-control", "www-authenticate", "retry-after", "allow", "location")
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"202[5-9]-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?")
_VERSION = re.compile(
    r"(?<=resource version: )\d+ \(\d+\)|(?<=, current: )\d+|(?<=resourceVersion: )\d+"
    r"|(?<=ResourceVersion in precondition: )\d+|(?<=ResourceVersion in object meta: )\d+|(?<=record \()\d+"
    r"|(?<=precondition \()\d+"
)
_GENERATED = re.compile(r"(?:(?<=-bad-)|(?<=\bBad))[bcdfghjklmnpqrstvwxz2456789]{5}")
_ADDRESS = re.compile(r"10\.0\.\d{1,3}\.\d{1,3}")
_TOKEN = re.compile(r"[\w-]{20,}\.[\w-]{20,}\.[\w-]{20,}")
_ALLOWED = re.compile(r"(?<=RBAC: allowed) by .*")
"""Of several bindings that allow the same, upstream names the one it happens to find first."""
_WORDS = (
    (_UID, "UID"),
    (_TIME, "TIME"),
    (_ADDRESS, "IP"),
    (_TOKEN, "TOKEN"),
    (_VERSION, "VERSION"),
    (_GENERATED, "LETTERS"),
    (_ALLOWED, ""),
)
_AGE = re.compile(r"(\d+[smhd])+|<invalid>")


def plain(reply: Reply) -> Object:
    """Status, headers that clients look at, and the body as data."""
    headers = {name: [_text(value) for value in reply.header(name)] for name in HEADERS}
    return {"status": reply.status, "headers": headers, "body": _body(reply)}


def _body(reply: Reply) -> Any:
    kind = (reply.header("content-type") or [""])[0]
    if kind.startswith("application/json") and b"\n{" in reply.body.strip() and not reply.body.startswith(b"{\n"):
        return [_value(json.loads(line)) for line in reply.body.splitlines()]
    if kind.startswith("application/json"):
        try:
            return _value(json.loads(reply.body))
        except ValueError:
            return reply.body.decode(errors="replace")
    if kind.startswith("application/yaml"):
        return _value(yaml.safe_load(reply.body))
    if kind.startswith("application/vnd.kubernetes.protobuf") and "stream" not in kind:
        try:
            return _value(decode(reply.body)[2])
        except StatusError as error:
            return f"{len(reply.body)} bytes: {error.message}"
    return _text(reply.body.decode(errors="replace"))


def _value(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return _mapping(value)
    if isinstance(value, list):
        if key == "managedFields":
            return sorted((_value(each) for each in value), key=_manager)
        if key in ("resourceRules", "nonResourceRules"):
            # As upstream finds them, which is never the same.
            return sorted((_value(each) for each in value), key=str)
        if key == "causes":
            # Upstream looks at some fields of an update twice, and says what is wrong as often.
            made = [_value(each) for each in value]
            return [each for index, each in enumerate(made) if each not in made[:index]]
        if key == "cells":
            return ["AGE" if isinstance(each, str) and _AGE.fullmatch(each) else _value(each) for each in value]
        return [_value(each) for each in value]
    return _text(value) if isinstance(value, str) else value


def _mapping(value: Object) -> Object:
    made = {key: _value(each, key) for key, each in value.items()}
    if made.get("group") == "example.com" and len(made.get("causes") or ()) > 1:
        # Upstream looks at the fields of custom kinds in no order.
        made["causes"] = sorted(made["causes"], key=str)
    if (made.get("details") or {}).get("group") == "example.com" and len(made["details"].get("causes") or ()) > 1:
        said = ", ".join(f"{each.get('field')}: {each['message']}" for each in made["details"]["causes"])
        made["message"] = f"{made['message'].partition(': [')[0]}: [{said}]"
    for key in ("resourceVersion", "continue"):
        if isinstance(made.get(key), str) and made[key] not in ("", "0"):
            made[key] = key.upper()
    for key in ("nodePort", "healthCheckNodePort"):
        if isinstance(made.get(key), int) and made[key] != 30123:
            made[key] = "PORT"
    start = made.get("generateName")
    if isinstance(start, str) and isinstance(made.get("name"), str) and made["name"].startswith(start[:58]):
        made["name"] = f"{start[:58]} and {len(made['name']) - len(start[:58])} letters"
    return made


def _manager(entry: Object) -> tuple[str, ...]:
    return tuple(str(entry.get(key, "")) for key in ("operation", "manager", "subresource", "apiVersion"))


def _text(text: str) -> str:
    for pattern, word in _WORDS:
        text = pattern.sub(word, text)
    return text
