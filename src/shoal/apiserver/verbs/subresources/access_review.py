"""Responses of access reviews, rules reviews, subject reviews and token reviews.

Pure: nothing is stored. Each function takes the decoded object of a create request and returns the response object.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from shoal.apiserver.authn.authenticator import Authenticator, User
from shoal.apiserver.authz import Attributes, Authorizer
from shoal.apiserver.request.options import parse_write_options
from shoal.apiserver.response.negotiation import reject_transform
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.apiserver.write.body import check_type, decode_small_body, prune_and_report
from shoal.clock import rfc3339
from shoal.kinds.rbac.rbac import validate_selector_requirement
from shoal.objects.errors import (
    BadRequest,
    Cause,
    InternalError,
    Unauthorized,
    forbidden_field,
    invalid_object,
    invalid_value,
    required_value,
)
from shoal.objects.selectors import from_label_selector, parse_field_selector, parse_label_selector
from shoal.objects.wire import Response

Object = dict[str, Any]

_AUTHORIZATION = "authorization.k8s.io"
MAX_REVIEWED_RULES = 5000
"""Rules in the answer of a SelfSubjectRulesReview. It says so if there are more."""
_ACCESS_REVIEWS = ("SelfSubjectAccessReview", "SubjectAccessReview", "LocalSubjectAccessReview")


def review_response(
    kind: str,
    obj: Object,
    user: User,
    cluster: str,
    authorizer: Authorizer,
    authenticator: Authenticator,
    *,
    namespace: str = "",
    now: float = 0.0,
) -> Object:
    """`namespace` is that of the URL (LocalSubjectAccessReview only). `now` is the creation time of a
    SelfSubjectReview.
    """
    if kind in _ACCESS_REVIEWS:
        return _access_review(kind, obj, user, cluster, authorizer, namespace)
    if kind == "SelfSubjectRulesReview":
        return _rules_review(obj, user, cluster, authorizer)
    if kind == "SelfSubjectReview":
        return _review_object(obj, {"userInfo": _user_info(user)}, metadata={"creationTimestamp": rfc3339(now)})
    if kind == "TokenReview":
        return _token_review(obj, cluster, authenticator)
    raise InternalError(f"{kind} is not a review")


def _access_review(kind: str, obj: Object, user: User, cluster: str, authorizer: Authorizer, namespace: str) -> Object:
    spec, metadata = _mapping(obj, "spec"), _mapping(obj, "metadata")
    if namespace and not metadata.get("namespace"):
        metadata = {**metadata, "namespace": namespace}
    resource, other = _optional(spec, "resourceAttributes"), _optional(spec, "nonResourceAttributes")
    causes = list(_access_causes(kind, spec, metadata, resource, other))
    if causes:
        raise invalid_object(kind, _AUTHORIZATION, "", causes)
    if kind == "LocalSubjectAccessReview" and (not namespace or metadata.get("namespace") != namespace):
        raise BadRequest(f"spec.resourceAttributes.namespace must match namespace: {namespace}")
    if kind != "SelfSubjectAccessReview":
        user = _subject_user(spec, cluster)
    if resource is not None:
        attributes = _resource_attributes(cluster, resource)
    else:
        # Only the rule for every path matches an empty path or a bare star.
        attributes = Attributes(cluster, _text(other or {}, "verb"), path=_text(other or {}, "path") or "*")
    decision = authorizer.authorize(user, attributes)
    status: Object = {"allowed": decision.allowed}
    if decision.reason:
        status["reason"] = decision.reason
    if error := "; ".join(_selector_errors(resource or {})):
        status["evaluationError"] = error
    return _review_object(obj, status, metadata=metadata, spec=spec)


def _access_causes(
    kind: str, spec: Object, metadata: Object, resource: Object | None, other: Object | None
) -> Iterator[Cause]:
    if resource is not None and other is not None:
        message = "cannot be specified in combination with resourceAttributes"
        yield invalid_value("spec.nonResourceAttributes", _non_resource_value(other), message)
    if resource is None and other is None:
        message = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        yield invalid_value("spec.resourceAttributes", None, message)
    if kind != "SelfSubjectAccessReview" and not spec.get("user") and not spec.get("groups"):
        yield invalid_value("spec.user", "", "at least one of user or group must be specified")
    for field in ("fieldSelector", "labelSelector"):
        selector = _optional(resource or {}, field)
        if selector is not None:
            yield from _selector_causes(selector, f"spec.resourceAttributes.{field}")
    local = kind == "LocalSubjectAccessReview"
    allowed = {"managedFields", "namespace"} if local else {"managedFields"}
    if any(value for key, value in metadata.items() if key not in allowed):
        yield invalid_value("metadata", metadata, "must be empty except for namespace" if local else "must be empty")
    if local and resource is not None and _text(resource, "namespace") != metadata.get("namespace", ""):
        message = "must match metadata.namespace"
        yield invalid_value("spec.resourceAttributes.namespace", _text(resource, "namespace"), message)
    if local and other is not None:
        yield invalid_value(
            "spec.nonResourceAttributes", _non_resource_value(other), "disallowed on this kind of request"
        )


def _selector_causes(selector: Object, path: str) -> Iterator[Cause]:
    raw, requirements = _text(selector, "rawSelector"), _objects(selector, "requirements")
    if raw and requirements:
        yield invalid_value(f"{path}.rawSelector", raw, "may not specified at the same time as requirements")
    if not raw and not requirements:
        message = f"when {path} is specified, requirements or rawSelector is required"
        yield required_value(f"{path}.requirements", message)
    for i, requirement in enumerate(requirements):
        where = f"{path}.requirements[{i}]"
        if path.endswith("labelSelector"):
            yield from validate_selector_requirement(requirement, where)
        else:
            yield from _field_requirement_causes(requirement, where)


def _field_requirement_causes(requirement: Object, path: str) -> Iterator[Cause]:
    operator, values = requirement.get("operator"), requirement.get("values")
    if not requirement.get("key"):
        yield required_value(f"{path}.key", "must be specified")
    if operator in ("In", "NotIn") and not values:
        yield required_value(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    if operator in ("Exists", "DoesNotExist") and values:
        message = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        yield forbidden_field(f"{path}.values", message)


def _selector_errors(resource: Object) -> Iterator[str]:
    """Selectors that cannot be parsed are ignored: the check is then for more, never for less."""
    for field in ("fieldSelector", "labelSelector"):
        selector = _optional(resource, field) or {}
        raw, requirements = _text(selector, "rawSelector"), _objects(selector, "requirements")
        valid = [requirement for requirement in requirements if _is_valid_requirement(field, requirement)]
        if raw:
            try:
                parse_field_selector(raw) if field == "fieldSelector" else parse_label_selector(raw)
            except BadRequest:
                yield f"spec.resourceAttributes.{field} ignored due to parse error"
        elif len(valid) < len(requirements):
            extent = "partially ignored" if valid else "ignored"
            yield f"spec.resourceAttributes.{field} {extent} due to parse error"


def _is_valid_requirement(field: str, requirement: Object) -> bool:
    if field == "fieldSelector":
        return requirement.get("operator") in ("In", "NotIn") and len(requirement.get("values") or ()) == 1
    try:
        from_label_selector({"matchExpressions": [requirement]})
    except BadRequest:
        return False
    return True


def _resource_attributes(cluster: str, resource: Object) -> Attributes:
    return Attributes(
        cluster,
        _text(resource, "verb"),
        group=_text(resource, "group"),
        version=_text(resource, "version") or "*",
        resource=_text(resource, "resource"),
        subresource=_text(resource, "subresource"),
        namespace=_text(resource, "namespace"),
        name=_text(resource, "name"),
    )


def _subject_user(spec: Object, cluster: str) -> User:
    given = _mapping(spec, "extra")
    extra = {key: _texts(given, key) for key in given}
    return User(_text(spec, "user"), _texts(spec, "groups"), _text(spec, "uid"), extra, cluster)


def _rules_review(obj: Object, user: User, cluster: str, authorizer: Authorizer) -> Object:
    namespace = _text(_mapping(obj, "spec"), "namespace")
    if not namespace:
        raise BadRequest("no namespace on request")
    user_rules = authorizer.rules_for(user, cluster, namespace, MAX_REVIEWED_RULES + 1)
    rules = user_rules.policy_rules
    listed = rules[:MAX_REVIEWED_RULES]
    resource_fields = ("verbs", "apiGroups", "resources", "resourceNames")
    status: Object = {
        "resourceRules": list(_select_rules(listed, "resources", resource_fields)),
        "nonResourceRules": list(_select_rules(listed, "nonResourceURLs", ("verbs", "nonResourceURLs"))),
        "incomplete": len(rules) > len(listed),
    }
    if user_rules.error:
        status["evaluationError"] = user_rules.error
    return _review_object(obj, status)


def _select_rules(rules: Iterable[Mapping[str, Any]], required_field: str, fields: tuple[str, ...]) -> Iterator[Object]:
    for rule in rules:
        if rule.get(required_field):
            yield {field: rule[field] for field in fields if rule.get(field)}


def _token_review(obj: Object, cluster: str, authenticator: Authenticator) -> Object:
    spec = _mapping(obj, "spec")
    token, audiences = _text(spec, "token"), _texts(spec, "audiences")
    if not token:
        raise BadRequest("token is required for TokenReview in authentication")
    try:
        user, accepted = authenticator.review(token, cluster, audiences)
    except Unauthorized as rejection:
        generic = "invalid bearer token"
        error = generic if rejection.message == generic else f"[{generic}, {rejection.message}]"
        return _review_object(obj, {"user": {}, "error": error}, spec=spec)
    status: Object = {"authenticated": True, "user": _user_info(user)}
    if accepted:
        status["audiences"] = list(accepted)
    return _review_object(obj, status, spec=spec)


def _user_info(user: User) -> Object:
    info: Object = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
    info["extra"] = {key: list(values) for key, values in user.extra.items()}
    return {key: value for key, value in info.items() if value}


def _review_object(
    obj: Object, status: Object, *, metadata: Object | None = None, spec: Object | None = None
) -> Object:
    head = {"kind": obj.get("kind"), "apiVersion": obj.get("apiVersion"), "metadata": metadata or {}}
    if obj.get("kind") == "SelfSubjectReview":
        return {**head, "status": status}
    return {**head, "spec": spec or {}, "status": status}


def _non_resource_value(attributes: Object) -> Object:
    return {"Path": _text(attributes, "path"), "Verb": _text(attributes, "verb")}


def _mapping(obj: Object, key: str) -> Object:
    return _optional(obj, key) or {}


def _optional(obj: Object, key: str) -> Object | None:
    value = obj.get(key)
    if value is None or isinstance(value, dict):
        return value
    raise BadRequest(f"{key} must be an object")


def _objects(obj: Object, key: str) -> list[Object]:
    values = obj.get(key) or []
    if isinstance(values, list) and all(isinstance(value, dict) for value in values):
        return values
    raise BadRequest(f"{key} must be a list of objects")


def _text(obj: Object, key: str) -> str:
    value = obj.get(key)
    if value is None or isinstance(value, str):
        return value or ""
    raise BadRequest(f"{key} must be a string")


def _texts(obj: Object, key: str) -> tuple[str, ...]:
    values = obj.get(key) or ()
    if isinstance(values, list | tuple) and all(isinstance(value, str) for value in values):
        return tuple(values)
    raise BadRequest(f"{key} must be a list of strings")


def review(server: ServerComponents, ctx: RequestContext) -> Response:
    reject_transform(ctx.output)
    options = parse_write_options(ctx.query, "CreateOptions")
    obj = decode_small_body(ctx.request)
    check_type(ctx, obj)
    prune_and_report(ctx, options, obj, ctx.request.body)
    body = review_response(
        ctx.resource.kind,
        obj,
        user=ctx.user,
        cluster=ctx.info.cluster,
        namespace=ctx.namespace,
        authorizer=server.authorizer,
        authenticator=server.authenticator,
        now=server.clock.now(),
    )
    return Response(201, orjson.dumps(body))
