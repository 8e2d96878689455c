"""The AdmissionReview protocol, v1 and v1beta1. Pure."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any

import orjson

from shoal.objects.errors import StatusError

Object = dict[str, Any]

GROUP = "admission.k8s.io"
VERSIONS = ("v1", "v1beta1")
MAX_MESSAGE_LENGTH, MAX_REASON_LENGTH, MAX_CAUSES = 32_768, 1_024, 64
"""How much of a webhook's Status is passed on to the client."""
_DETAIL_FIELDS, _CAUSE_FIELDS = ("name", "group", "kind", "uid"), ("reason", "message", "field")


class InvalidResponse(Exception):
    """What is invalid about a webhook's response."""


class UnrecognisedResponse(InvalidResponse):
    """It is no answer to the review that was sent, so it may be of a server that is no webhook."""


class WebhookDenied(StatusError):
    """A webhook's own Status, with its name in front of the message."""

    def __init__(self, webhook: str, result: Object) -> None:
        denied = f'admission webhook "{webhook}" denied the request'
        explanation = _text(result, "message", MAX_MESSAGE_LENGTH) or _text(result, "reason", MAX_REASON_LENGTH)
        code = result.get("code")
        code = code if isinstance(code, int) and 400 <= code < 600 else 400
        super().__init__(f"{denied}: {explanation}" if explanation else f"{denied} without explanation", code=code)
        self._reason = _text(result, "reason", MAX_REASON_LENGTH)
        self._details = _status_details(result.get("details"))

    def to_status(self) -> Object:
        status: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        status["message"] = self.message
        if self._reason:
            status["reason"] = self._reason
        if self._details is not None:
            status["details"] = self._details
        return {**status, "code": self.status_code}


@dataclass(frozen=True, slots=True)
class AdmissionResponse:
    allowed: bool
    result: Object
    patch: object = None
    """The raw patch; `patch_operations` decodes it."""
    warnings: tuple[str, ...] = ()
    annotations: dict[str, str] = field(default_factory=dict)


def supported_version(accepted: tuple[str, ...]) -> str:
    """The first version of the webhook that is supported here; empty if there is none."""
    return next((version for version in accepted if version in VERSIONS), "")


def build_review(version: str, request: Object) -> bytes:
    return orjson.dumps({"kind": "AdmissionReview", "apiVersion": f"{GROUP}/{version}", "request": request})


def parse_review(version: str, uid: str, review: Object, *, mutating: bool) -> AdmissionResponse:
    """Parses the response. v1beta1 was never strict about uid, type and patch type."""
    response = review.get("response")
    if not isinstance(response, dict):
        raise UnrecognisedResponse("webhook response was absent")
    patch, kind = response.get("patch"), response.get("patchType")
    if version == "v1":
        check_uid(response, uid)
        check_type(review, f"{GROUP}/v1", "AdmissionReview")
        _check_patch(patch, kind, mutating)
    warnings = response.get("warnings")
    annotations = response.get("auditAnnotations")
    result = response.get("status")
    return AdmissionResponse(
        allowed=response.get("allowed") is True,
        result=result if isinstance(result, dict) else {},
        patch=patch if mutating else None,
        warnings=tuple(text for text in warnings if isinstance(text, str)) if isinstance(warnings, list) else (),
        annotations={str(k): v for k, v in annotations.items() if isinstance(v, str)}
        if isinstance(annotations, dict)
        else {},
    )


def decode_response(body: bytes) -> Object:
    try:
        review = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise UnrecognisedResponse(f"couldn't get version/kind; json parse error: {error}") from None
    if not isinstance(review, dict):
        raise UnrecognisedResponse("couldn't get version/kind; json parse error: the answer is no JSON object")
    return review


def check_uid(response: Object, uid: str) -> None:
    if response.get("uid") != uid:
        raise UnrecognisedResponse(
            f'expected response.uid="{uid}", got {orjson.dumps(response.get("uid") or "").decode()}'
        )


def check_type(review: Object, api_version: str, kind: str) -> None:
    if review.get("apiVersion") != api_version or review.get("kind") != kind:
        given = str(review.get("apiVersion") or "")
        got = f"{given if '/' in given else '/' + given}, Kind={review.get('kind') or ''}"
        raise UnrecognisedResponse(f"expected webhook response of {api_version}, Kind={kind}, got {got}")


def _check_patch(patch: object, kind: object, mutating: bool) -> None:
    if not mutating:
        if patch:
            raise InvalidResponse("validating webhook may not return response.patch")
        if kind is not None:
            raise InvalidResponse("validating webhook may not return response.patchType")
    elif patch and kind is None:
        raise InvalidResponse("webhook returned response.patch but not response.patchType")
    elif kind is not None and not patch:
        raise InvalidResponse("webhook returned response.patchType but not response.patch")
    elif kind == "":
        raise InvalidResponse('webhook returned invalid response.patchType of ""')
    elif kind is not None and kind != "JSONPatch":
        raise InvalidResponse(f'unsupported patch type "{kind}"')


def patch_operations(patch: object) -> list[Object]:
    """The operations of a base64 JSON patch; empty if there is none."""
    if not patch:
        return []
    try:
        decoded = orjson.loads(base64.b64decode(patch, validate=True)) if isinstance(patch, str) else None
    except ValueError as error:
        raise InvalidResponse(f"received undecodable patch in webhook response: {error}") from None
    if not isinstance(decoded, list) or not all(isinstance(each, dict) for each in decoded):
        raise InvalidResponse("received undecodable patch in webhook response: a list of operations was expected")
    return decoded


def _text(result: Object, key: str, max_length: int) -> str:
    value = result.get(key)
    return value[:max_length] if isinstance(value, str) else ""


def _status_details(details: object) -> Object | None:
    """The fields of a Status's details; nothing else of the answer is passed on."""
    if not isinstance(details, dict):
        return None
    kept: Object = {key: text for key in _DETAIL_FIELDS if (text := _text(details, key, MAX_REASON_LENGTH))}
    seconds, causes = details.get("retryAfterSeconds"), details.get("causes")
    if isinstance(seconds, int):
        kept["retryAfterSeconds"] = seconds
    if isinstance(causes, list):
        kept["causes"] = [
            {key: text for key in _CAUSE_FIELDS if (text := _text(cause, key, MAX_REASON_LENGTH))}
            for cause in causes[:MAX_CAUSES]
            if isinstance(cause, dict)
        ]
    return kept
