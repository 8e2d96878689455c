"""Any webhook response is either parsed or rejected; nothing else can happen."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.apiserver.cache.cacher import WatchCache
from shoal.apiserver.webhooks.client import CallError, WebhookClient
from shoal.apiserver.webhooks.conversion import _check_converted
from shoal.apiserver.webhooks.review import (
    InvalidResponse,
    WebhookDenied,
    decode_response,
    parse_review,
    patch_operations,
)
from shoal.kinds.admissionregistration.webhook_client import ClientConfig

Object = dict[str, Any]
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ("uid", "allowed", "patch", "patchType", "status", "warnings", "auditAnnotations")
responses = st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, values)) | values
STATUS = ("status", "message", "reason", "code", "details")
results = st.fixed_dictionaries({}, optional=dict.fromkeys(STATUS, values))


@settings(max_examples=200)
@given(responses, st.sampled_from(["v1", "v1beta1"]), st.booleans())
def test_any_response(response: object, version: str, mutating: bool) -> None:
    if isinstance(response, dict) and "uid" in response:
        response["uid"] = "u"
    review = {"apiVersion": f"admission.k8s.io/{version}", "kind": "AdmissionReview", "response": response}
    with suppress(InvalidResponse):
        found = parse_review(version, "u", decode_response(orjson.dumps(review)), mutating=mutating)
        assert isinstance(patch_operations(found.patch), list)
        assert found.allowed is (isinstance(response, dict) and response.get("allowed") is True)


@settings(max_examples=100)
@given(results)
def test_any_denial_is_a_failure(result: Object) -> None:
    denied = WebhookDenied("w.example.com", result)
    status = orjson.loads(orjson.dumps(denied.to_status()))
    assert 400 <= status["code"] < 600
    assert status["code"] == denied.status_code
    assert status["status"] == "Failure"
    assert status["message"].startswith('admission webhook "w.example.com" denied the request')


@settings(max_examples=100)
@given(values)
def test_any_converted_object(metadata: object) -> None:
    before = {"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "a", "uid": "u", "labels": {"l": "1"}}}
    after = {"apiVersion": "g/v2", "kind": "K", "metadata": metadata}
    if isinstance(metadata, dict):
        metadata.update(name="a", uid="u")
    with suppress(InvalidResponse):
        made = _check_converted(before, after, "g/v2")
        assert {key: made["metadata"][key] for key in ("name", "uid")} == {"name": "a", "uid": "u"}


class Silent:
    """Answers nobody, until it is told to."""

    def __init__(self) -> None:
        self.asked = 0
        self.answers = False

    async def post(self, url: str, body: bytes, **_: object) -> tuple[int, bytes]:
        self.asked += 1
        if not self.answers:
            await asyncio.Event().wait()
        return 200, b"{}"

    async def close(self) -> None:
        pass


@pytest.mark.anyio
async def test_of_the_impatient_one_at_a_time_waits_for_one_that_was_late() -> None:
    silent = Silent()
    calls = WebhookClient(WatchCache(lambda kind, cluster: ()), lambda: silent)
    where = ClientConfig(url="https://x")

    async def ask(impatient: bool, seconds: float = 0.01) -> str:
        try:
            await calls.call("c", where, b"", seconds, fail_fast=impatient)
        except CallError as error:
            return str(error).partition(": ")[2]
        return ""

    late, refused = "context deadline exceeded", "the webhook timed out before and is being retried"
    assert await ask(True) == late
    first = asyncio.create_task(ask(True, 60.0))
    while silent.asked < 2:  # noqa: ASYNC110
        await asyncio.sleep(0)
    assert [await ask(True), await ask(True)] == [refused, refused]
    assert await ask(False) == late  # who has time is not refused
    assert silent.asked == 3
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert await ask(True) == late
    silent.answers = True
    assert [await ask(True), await ask(True)] == ["", ""]
    assert list(await asyncio.gather(ask(True), ask(True))) == ["", ""]
