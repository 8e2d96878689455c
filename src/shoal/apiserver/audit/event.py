"""Builds audit.k8s.io/v1 Events of stage ResponseComplete from requests.

At level Metadata no part of a body is recorded. Messages of rejected bodies (400, 413, 415, 422) are left out too,
because they quote the body. Credentials from headers are never recorded.
"""

from __future__ import annotations

import base64
import itertools
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import orjson

from shoal.apiserver.audit.log_backend import AuditLogBackend
from shoal.apiserver.audit.policy import (
    METADATA,
    NONE,
    REQUEST_RESPONSE,
    RESPONSE_COMPLETE,
    AuditAttributes,
    AuditPolicy,
    AuditPolicyRule,
)
from shoal.apiserver.authn.authenticator import User
from shoal.apiserver.cache.storage_form import CLUSTER_ANNOTATION
from shoal.apiserver.request.info import RequestInfo
from shoal.apiserver.response.negotiation import PROTOBUF, YAML, request_media_type
from shoal.clock import Clock, rfc3339_micro
from shoal.objects import strictyaml
from shoal.objects.errors import ShoalError
from shoal.objects.protobuf import decode as decode_protobuf
from shoal.objects.wire import Answer, Request, Response, Sink, StreamResponse

MAX_PARSED_BYTES = 16 * 1024
"""Larger bodies in YAML or protobuf are recorded as text: to parse them would hold the event loop."""


def request_object(request: Request, omit_managed_fields: bool) -> Any:
    """Returns None if the request has no body or the body cannot be parsed."""
    return _omit_managed_fields(_parse_body(request.body, request.headers.get("content-type", "")), omit_managed_fields)


def response_object(answer: Answer, omit_managed_fields: bool) -> Any:
    if not isinstance(answer, Response):
        return None
    body = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
    return _omit_managed_fields(_parse_body(body, answer.content_type), omit_managed_fields)


def _parse_body(body: bytes, content_type: str) -> Any:
    if not body:
        return None
    if len(body) > MAX_PARSED_BYTES and not _is_json(content_type):
        return body.decode(errors="replace") if "yaml" in content_type else base64.b64encode(body).decode()
    try:
        if "patch+" in content_type:
            return strictyaml.loads(body) if "yaml" in content_type else orjson.loads(body)
        media_type = request_media_type(content_type)
        if media_type == PROTOBUF:
            return decode_protobuf(body)[2]
        return strictyaml.loads(body) if media_type == YAML else orjson.loads(body)
    except (ShoalError, ValueError):
        return None


def _is_json(content_type: str) -> bool:
    return "json" in content_type or request_media_type(content_type) not in (PROTOBUF, YAML)


def _omit_managed_fields(obj: Any, omit_managed_fields: bool) -> Any:
    if omit_managed_fields and isinstance(obj, dict):
        for each in (obj, *(obj.get("items") or ())):
            metadata = each.get("metadata") if isinstance(each, dict) else None
            if isinstance(metadata, dict):
                metadata.pop("managedFields", None)
    return obj


Object = dict[str, Any]

AUDIT_ID_HEADER = "Audit-Id"
_MAX_AUDIT_ID_LENGTH = 64
_BODY_QUOTING_CODES = (400, 413, 415, 422)
"""Status codes whose messages quote the request body."""
_process_id_prefix = str(uuid.uuid4())[:24]
_sequence = itertools.count(1)


@dataclass(slots=True)
class AuditContext:
    """The audit state of one request in progress. The handler chain fills in user, authorization and failure."""

    id: str
    received_at: float
    request: Request
    request_info: RequestInfo
    verb: str
    user: User | None = None
    impersonated_user: User | None = None
    """The impersonated user."""
    authorized: bool | None = None
    """None: the authorizer was not called."""
    authorization_reason: str = ""
    failure_status: Mapping[str, Any] | None = None
    """The Status of a failed request."""
    annotations: Mapping[str, str] | None = None
    """Audit annotations set by admission webhooks."""


def audit_id_of(headers: Mapping[str, str]) -> str:
    """Returns the client's Audit-Id if it is valid, else a new one."""
    client_id = headers.get("audit-id")
    if client_id and len(client_id) <= _MAX_AUDIT_ID_LENGTH and client_id.isascii() and client_id.isprintable():
        return client_id
    return f"{_process_id_prefix}{next(_sequence):012x}"


class Auditor:
    def __init__(self, backend: AuditLogBackend, policy: AuditPolicy, clock: Clock) -> None:
        self._backend, self._policy, self._clock = backend, policy, clock

    def begin_request(self, request: Request, target: RequestInfo) -> AuditContext:
        return AuditContext(audit_id_of(request.headers), self._clock.now(), request, target, request.method.lower())

    def finish_request(self, context: AuditContext, answer: Answer) -> None:
        """Records the request. A watch is recorded when it ends."""
        answer.headers += ((AUDIT_ID_HEADER, context.id),)
        rule = self._policy.matching_rule(_attributes_of(context))
        if rule.level == NONE:
            return
        if not isinstance(answer, StreamResponse) or context.request.method == "HEAD":
            self._write(context, answer, rule)
            return
        start = answer.start

        def start_audited(sink: Sink) -> None:
            sink.on_close(lambda: self._write(context, answer, rule))
            start(sink)

        answer.start = start_audited

    def close(self) -> None:
        self._backend.close()

    def _write(self, context: AuditContext, answer: Answer, rule: AuditPolicyRule) -> None:
        audit_event = build_event(context, answer.status, self._clock.now(), rule.level)
        if context.request_info.is_resource and rule.level != METADATA:
            request_obj = request_object(context.request, rule.omit_managed_fields)
            response_obj = response_object(answer, rule.omit_managed_fields) if rule.level == REQUEST_RESPONSE else None
            objects = {"requestObject": request_obj, "responseObject": response_obj}
            audit_event |= {key: value for key, value in objects.items() if value is not None}
        self._backend.write(orjson.dumps(audit_event))


def _attributes_of(context: AuditContext) -> AuditAttributes:
    user, target = context.user, context.request_info
    return AuditAttributes(
        user=user.name if user is not None else "",
        groups=user.groups if user is not None else (),
        verb=context.verb,
        path=target.path,
        is_resource=target.is_resource,
        group=target.group,
        resource=target.plural,
        subresource=target.subresource,
        namespace=target.namespace,
        name=target.name,
    )


def build_event(context: AuditContext, status: int, now: float, level: str = METADATA) -> Object:
    request, target = context.request, context.request_info
    audit_event: Object = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": level,
        "auditID": context.id,
        "stage": RESPONSE_COMPLETE,
        "requestURI": quote(request.path, safe="/:@!$&'()*+,;=~") + (f"?{request.query}" if request.query else ""),
        "verb": context.verb,
        "user": _user_info(context.user),
    }
    if context.impersonated_user is not None:
        audit_event["impersonatedUser"] = _user_info(context.impersonated_user)
    audit_event["sourceIPs"] = _source_ips(request)
    agent = request.headers.get("user-agent", "")
    if agent:
        audit_event["userAgent"] = agent
    if target.is_resource:
        audit_event["objectRef"] = _object_ref(target)
    audit_event["responseStatus"] = _response_status(context.failure_status, status, level)
    audit_event["requestReceivedTimestamp"] = rfc3339_micro(context.received_at)
    audit_event["stageTimestamp"] = rfc3339_micro(now)
    audit_event["annotations"] = {**(context.annotations or {}), CLUSTER_ANNOTATION: target.cluster}
    if context.authorized is not None:
        audit_event["annotations"]["authorization.k8s.io/decision"] = "allow" if context.authorized else "forbid"
        audit_event["annotations"]["authorization.k8s.io/reason"] = context.authorization_reason
    return audit_event


def _user_info(user: User | None) -> Object:
    if user is None:
        return {}
    info: Object = {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": dict(user.extra)}
    return {key: value for key, value in info.items() if value}


def _source_ips(request: Request) -> list[str]:
    """Returns the X-Forwarded-For addresses, followed by the address of the peer."""
    forwarded = [part.strip() for part in request.headers.get("x-forwarded-for", "").split(",") if part.strip()]
    return list(dict.fromkeys([*forwarded, request.remote_addr])) if request.remote_addr else forwarded


def _object_ref(target: RequestInfo) -> Object:
    reference = {
        "resource": target.plural,
        "namespace": target.namespace,
        "name": target.name,
        "apiGroup": target.group,
        "apiVersion": target.version,
        "subresource": target.subresource,
    }
    return {key: value for key, value in reference.items() if value}


def _response_status(failure: Mapping[str, Any] | None, code: int, level: str) -> Object:
    if failure is None:
        return {"metadata": {}, "code": code}
    kept_keys = (
        ("status", "reason") if code in _BODY_QUOTING_CODES and level == METADATA else ("status", "message", "reason")
    )
    return {"metadata": {}, **{key: failure[key] for key in kept_keys if key in failure}, "code": code}
