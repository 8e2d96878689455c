"""Builds audit.k8s.io/v1 Events of stage ResponseComplete from requests.

At level Metadata no part of a body is recorded. Messages of rejected bodies (400, 413, 415, 422) are left out too,
because they quote the body. Credentials from headers are never recorded.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import orjson

from shoal.apiserver.audit.bodies import request_object, response_object
from shoal.apiserver.audit.log import AuditFile
from shoal.apiserver.audit.policy import METADATA, NONE, RESPONSE, STAGE, Asked, Policy, Rule
from shoal.apiserver.authn import User
from shoal.apiserver.encoding import CLUSTER_ANNOTATION
from shoal.apiserver.paths import Target
from shoal.clock import Clock, rfc3339_micro
from shoal.objects.wire import Answer, Request, Sink, StreamResponse

Object = dict[str, Any]

HEADER = "Audit-Id"
_LONGEST_ID = 64
_QUOTING = (400, 413, 415, 422)
"""Status codes whose messages quote the request body."""
_process = str(uuid.uuid4())[:24]
_numbers = itertools.count(1)


@dataclass(slots=True)
class Record:
    """The audit state of one request in progress. The handler chain fills in user, authorization and failure."""

    id: str
    received: float
    request: Request
    target: Target
    verb: str
    user: User | None = None
    acts_as: User | None = None
    """The impersonated user."""
    allowed: bool | None = None
    """None: the authorizer was not called."""
    reason: str = ""
    failure: Mapping[str, Any] | None = None
    """The Status of a failed request."""
    annotations: Mapping[str, str] | None = None
    """Audit annotations set by admission webhooks."""


def audit_id(headers: Mapping[str, str]) -> str:
    """Returns the client's Audit-Id if it is valid, else a new one."""
    found = headers.get("audit-id")
    if found and len(found) <= _LONGEST_ID and found.isascii() and found.isprintable():
        return found
    return f"{_process}{next(_numbers):012x}"


class Audit:
    def __init__(self, file: AuditFile, policy: Policy, clock: Clock) -> None:
        self._file, self._policy, self._clock = file, policy, clock

    def begin(self, request: Request, target: Target) -> Record:
        return Record(audit_id(request.headers), self._clock.now(), request, target, request.method.lower())

    def end(self, record: Record, answer: Answer) -> None:
        """Records the request. A watch is recorded when it ends."""
        answer.headers += ((HEADER, record.id),)
        rule = self._policy.rule(_asked(record))
        if rule.level == NONE:
            return
        if not isinstance(answer, StreamResponse) or record.request.method == "HEAD":
            self._write(record, answer, rule)
            return
        start = answer.start

        def followed(sink: Sink) -> None:
            sink.on_close(lambda: self._write(record, answer, rule))
            start(sink)

        answer.start = followed

    def close(self) -> None:
        self._file.close()

    def _write(self, record: Record, answer: Answer, rule: Rule) -> None:
        made = event(record, answer.status, self._clock.now(), rule.level)
        if record.target.is_resource and rule.level != METADATA:
            sent = request_object(record.request, rule.omit_owners)
            answered = response_object(answer, rule.omit_owners) if rule.level == RESPONSE else None
            found = {"requestObject": sent, "responseObject": answered}
            made |= {key: value for key, value in found.items() if value is not None}
        self._file.write(orjson.dumps(made))


def _asked(record: Record) -> Asked:
    user, target = record.user, record.target
    return Asked(
        user=user.name if user is not None else "",
        groups=user.groups if user is not None else (),
        verb=record.verb,
        path=target.path,
        is_resource=target.is_resource,
        group=target.group,
        resource=target.plural,
        subresource=target.subresource,
        namespace=target.namespace,
        name=target.name,
    )


def event(record: Record, status: int, now: float, level: str = METADATA) -> Object:
    request, target = record.request, record.target
    made: Object = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": level,
        "auditID": record.id,
        "stage": STAGE,
        "requestURI": quote(request.path, safe="/:@!$&'()*+,;=~") + (f"?{request.query}" if request.query else ""),
        "verb": record.verb,
        "user": _user(record.user),
    }
    if record.acts_as is not None:
        made["impersonatedUser"] = _user(record.acts_as)
    made["sourceIPs"] = _sources(request)
    agent = request.headers.get("user-agent", "")
    if agent:
        made["userAgent"] = agent
    if target.is_resource:
        made["objectRef"] = _object_ref(target)
    made["responseStatus"] = _status(record.failure, status, level)
    made["requestReceivedTimestamp"] = rfc3339_micro(record.received)
    made["stageTimestamp"] = rfc3339_micro(now)
    made["annotations"] = {**(record.annotations or {}), CLUSTER_ANNOTATION: target.cluster}
    if record.allowed is not None:
        made["annotations"]["authorization.k8s.io/decision"] = "allow" if record.allowed else "forbid"
        made["annotations"]["authorization.k8s.io/reason"] = record.reason
    return made


def _user(user: User | None) -> Object:
    if user is None:
        return {}
    found: Object = {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": dict(user.extra)}
    return {key: value for key, value in found.items() if value}


def _sources(request: Request) -> list[str]:
    """Returns the X-Forwarded-For addresses, followed by the address of the peer."""
    named = [part.strip() for part in request.headers.get("x-forwarded-for", "").split(",") if part.strip()]
    return list(dict.fromkeys([*named, request.remote])) if request.remote else named


def _object_ref(target: Target) -> Object:
    found = {
        "resource": target.plural,
        "namespace": target.namespace,
        "name": target.name,
        "apiGroup": target.group,
        "apiVersion": target.version,
        "subresource": target.subresource,
    }
    return {key: value for key, value in found.items() if value}


def _status(failure: Mapping[str, Any] | None, code: int, level: str) -> Object:
    if failure is None:
        return {"metadata": {}, "code": code}
    kept = ("status", "reason") if code in _QUOTING and level == METADATA else ("status", "message", "reason")
    return {"metadata": {}, **{key: failure[key] for key in kept if key in failure}, "code": code}
