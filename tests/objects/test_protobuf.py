"""Protobuf against upstream's samples and against invalid bytes."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.objects import errors
from shoal.objects.protobuf import decode, encode, encode_message, has_protobuf, message_steps, watch_frame
from shoal.objects.protobuf_decoder import decode_object
from shoal.objects.protobuf_encoder import encode_delimited, encode_varint

GOLDEN = orjson.loads((Path(__file__).parent / "protobuf_golden.json").read_bytes())
FUZZ = settings(derandomize=True, deadline=None, max_examples=150)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def envelope(api_version: str, kind: str, raw: bytes, tail: bytes = b"") -> bytes:
    meta = encode_delimited(1, api_version.encode()) + encode_delimited(2, kind.encode())
    return b"k8s\x00" + encode_delimited(1, meta) + encode_delimited(2, raw) + tail


def decode_error(data: bytes) -> str:
    with pytest.raises(errors.BadRequest) as caught:
        decode(data)
    message = caught.value.message
    assert message.startswith("unable to decode the protobuf message: ")
    return message.removeprefix("unable to decode the protobuf message: ")


@pytest.mark.parametrize(
    "pair", GOLDEN, ids=lambda pair: f"{pair['json'].get('apiVersion')}-{pair['json'].get('kind')}"
)
def test_upstream_samples_both_ways(pair: dict[str, Any]) -> None:
    said = without_nulls(pair["json"])
    api_version, kind, obj = decode(bytes.fromhex(pair["protobuf"]))
    assert (api_version, kind) == (said["apiVersion"], said["kind"])
    assert without_nulls(obj) == said
    assert without_nulls(decode(encode(pair["json"]))[2]) == said


def run(steps: Generator[None, None, bytes]) -> tuple[bytes, int]:
    """The message, and the number of steps."""
    count = 1
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value, count
        count += 1


@pytest.mark.parametrize(
    "pair", GOLDEN, ids=lambda pair: f"{pair['json'].get('apiVersion')}-{pair['json'].get('kind')}"
)
def test_samples_in_steps(pair: dict[str, Any]) -> None:
    assert run(message_steps(pair["json"]))[0] == encode_message(pair["json"])


def pod(**spec: object) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}


@pytest.mark.parametrize(
    "obj",
    [
        pod(imagePullSecrets=[{}] * 10_000),
        pod(containers=[{"name": "a", "env": [{"name": "x"}] * 10_000}]),
        pod(volumes=[{"name": "a", "projected": {"sources": [{}] * 10_000}}]),
        {**pod(), "metadata": {"finalizers": [""] * 10_000}},
        {"apiVersion": "v1", "kind": "ConfigMap", "data": {str(number): "" for number in range(10_000)}},
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "spec": {
                "versions": [
                    {"schema": {"openAPIV3Schema": {"properties": {"a": {"items": {"allOf": [{}] * 10_000}}}}}}
                ]
            },
        },
    ],
    ids=["empty messages", "messages in messages", "an inlined message", "strings", "a map", "a special type"],
)
def test_no_step_is_long_whatever_the_values_are(obj: dict[str, Any]) -> None:
    message, steps = run(message_steps(obj))
    assert message == encode_message(obj)
    assert steps > 30


@pytest.mark.parametrize("spec", [{"containers": 1}, {"containers": [1]}, {"nodeSelector": ["a"]}, {"hostNetwork": {}}])
def test_values_of_the_wrong_type_are_refused_in_steps_too(spec: dict[str, Any]) -> None:
    for encoding in (encode_message, lambda obj: run(message_steps(obj))[0]):
        with pytest.raises(errors.InternalError, match="unable to encode Pod of v1 as protobuf"):
            encoding(pod(**spec))


def test_samples_reach_every_kind_of_field() -> None:
    filled = {pair["json"]["kind"] for pair in GOLDEN if "managedFields" in pair["json"].get("metadata", {})}
    assert len(filled) >= 30
    assert {"CustomResourceDefinition", "Deployment", "Pod", "Secret", "Lease", "Ingress"} <= filled
    assert len(GOLDEN) > 100


def test_encoded_bytes_are_upstreams() -> None:
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"b": "2", "a": "1"}, "binaryData": {"c": "AAE="}}
    assert encode(config_map) == (
        b"k8s\x00\x0a\x0f\x0a\x02v1\x12\x09ConfigMap"
        b"\x12\x19\x12\x06\x0a\x01a\x12\x011\x12\x06\x0a\x01b\x12\x012\x1a\x07\x0a\x01c\x12\x02\x00\x01"
        b"\x1a\x00\x22\x00"
    )


def test_zero_values_follow_the_go_tags() -> None:
    _, _, obj = decode(envelope("v1", "Pod", b""))
    assert obj == {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {}, "status": {}}
    assert decode(envelope("v1", "Pod", b""))[2]["metadata"] is not obj["metadata"]


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("1970-01-01T00:00:00Z", 0), ("2024-02-29T12:00:00+02:00", 1709200800), ("2024-02-29T10:00:00.9Z", 1709200800)],
)
def test_times_are_whole_seconds_in_utc(value: str, seconds: int) -> None:
    data = encode({"apiVersion": "v1", "kind": "Pod", "metadata": {"creationTimestamp": value}})
    assert b"\x08" + encode_varint(seconds) + b"\x10\x00" in data
    assert decode(data)[2]["metadata"]["creationTimestamp"] == value[:11] + f"{10 if seconds else 0:02d}:00:00Z"


def test_an_empty_timestamp_is_no_time() -> None:
    assert decode(envelope("v1", "Pod", encode_delimited(1, encode_delimited(8, b""))))[2]["metadata"] == {}


def test_micro_times_keep_six_digits() -> None:
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {"renewTime": "2024-01-01T00:00:00.5Z"}}
    assert decode(encode(lease))[2]["spec"]["renewTime"] == "2024-01-01T00:00:00.500000Z"


@pytest.mark.parametrize("value", [8080, 0, -1, "http", "", "50%"])
def test_int_or_string(value: int | str) -> None:
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": {"minAvailable": value}}
    assert decode(encode(budget))[2]["spec"] == {"minAvailable": value}


@pytest.mark.parametrize(
    "schema",
    [
        {"additionalProperties": False},
        {"additionalProperties": True},
        {"additionalProperties": {"type": "string"}},
        {"items": {"type": "integer", "minimum": 0, "maximum": 1.5}},
        {"items": [{"type": "string"}, {"type": "boolean"}]},
        {"default": {"a": [1, None]}, "enum": [1, "x", None, False, {}]},
        {"dependencies": {"a": ["b"], "c": {"type": "object"}}},
        {"properties": {"deep": {"properties": {"deeper": {"x-kubernetes-int-or-string": True}}}}},
        {"$ref": "#/x", "x-kubernetes-preserve-unknown-fields": False, "x-kubernetes-list-map-keys": ["a"]},
    ],
)
def test_custom_resource_schemas(schema: dict[str, Any]) -> None:
    version = {"name": "v1", "served": True, "storage": False, "schema": {"openAPIV3Schema": schema}}
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": {"versions": [version]}}
    assert decode(encode(crd))[2]["spec"]["versions"] == [version]


def test_numbers_negative_and_large() -> None:
    spec = {"replicas": -1, "minReadySeconds": 2**31 - 1}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}
    assert decode(encode(deployment))[2]["spec"].items() >= spec.items()


def test_a_pointer_keeps_its_zero_and_a_plain_field_does_not() -> None:
    # spec.replicas is a pointer (1 = 0); spec.minReadySeconds is not (5 = 0).
    spec = decode(envelope("apps/v1", "Deployment", encode_delimited(2, b"\x08\x00\x28\x00")))[2]["spec"]
    assert spec["replicas"] == 0
    assert "minReadySeconds" not in spec


def test_packed_lists_are_read() -> None:
    # PodSecurityContext.supplementalGroups = 4, in PodSpec.securityContext = 14.
    pod = encode_delimited(2, encode_delimited(14, encode_delimited(4, b"\x01\x80\x01")))
    assert decode(envelope("v1", "Pod", pod))[2]["spec"]["securityContext"] == {"supplementalGroups": [1, 128]}


def test_delete_options_belong_to_every_group() -> None:
    options = {"apiVersion": "apps/v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"}
    options["preconditions"] = {"uid": "u"}  # type: ignore[assignment]
    assert decode(encode(options)) == ("apps/v1", "DeleteOptions", options)


def test_unknown_fields_are_skipped_in_both_directions() -> None:
    extra = encode_delimited(900, b"later") + b"\xa0\x38\x07" + b"\xa1\x38" + bytes(8) + b"\xa5\x38" + bytes(4)
    assert decode(envelope("v1", "ConfigMap", extra + encode_delimited(2, encode_delimited(1, b"k"))))[2]["data"] == {
        "k": ""
    }
    plain = {"apiVersion": "v1", "kind": "ConfigMap"}
    assert encode(plain | {"later": 1}) == encode(plain)


def test_embedded_objects_may_be_protobuf_themselves() -> None:
    inner = encode({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}})
    listed = envelope("v1", "List", encode_delimited(2, encode_delimited(1, inner)))
    assert decode(listed)[2]["items"][0]["data"] == {"a": "b"}


def test_watch_frame() -> None:
    encoded = encode({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}})
    frame = watch_frame("ADDED", encoded)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    event = decode_object(envelope("v1", "WatchEvent", frame[4:]))
    assert event["type"] == "ADDED"
    assert event["object"]["data"] == {"a": "b"}


def test_supports() -> None:
    assert has_protobuf("apps/v1", "DeploymentList")
    assert has_protobuf("meta.k8s.io/v1", "PartialObjectMetadata")
    assert not has_protobuf("apps/v1beta1", "Deployment")
    assert not has_protobuf("example.com/v1", "Widget")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"k8s\x00\x0a", "it is cut short"),
        (b"k8s\x00\x0a\x05\x0a", "Unknown is cut short"),
        (envelope("v1", "Widget", b""), 'no kind "Widget" of version "v1" is known in protobuf, send it as JSON'),
        (
            envelope("v1", "Pod", b"", encode_delimited(3, b"gzip")),
            "the envelope has contentEncoding 'gzip', which is not supported",
        ),
        (envelope("v1", "ConfigMap", b"\x08\x01"), "field 1 of core/v1.ConfigMap has the wrong wire type 0"),
        (envelope("v1", "ConfigMap", b"\x0b"), "core/v1.ConfigMap has a field of unknown wire type 3"),
        (envelope("apps/v1", "Deployment", b"\x12\x0b\x08" + b"\xff" * 10), "a number is longer than 64 bits"),
        (
            envelope("v1", "ConfigMap", b"\x0a\x03\x0a\x01\xff"),
            "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
        ),
    ],
)
def test_what_is_wrong_is_told(data: bytes, said: str) -> None:
    assert decode_error(data) == said


def test_embedded_json_must_be_json() -> None:
    managed = encode_delimited(17, encode_delimited(7, encode_delimited(1, b"{oops")))
    assert "unexpected character" in decode_error(envelope("v1", "ConfigMap", encode_delimited(1, managed)))


def test_a_time_out_of_range() -> None:
    timestamp = b"\x08" + encode_varint(2**62)
    assert decode_error(envelope("v1", "Pod", encode_delimited(1, encode_delimited(8, timestamp))))


def nested_schema(levels: int) -> bytes:
    schema = b""
    for _ in range(levels):
        schema = encode_delimited(29, encode_delimited(1, b"a") + encode_delimited(2, schema))
    raw = encode_delimited(2, encode_delimited(7, encode_delimited(4, encode_delimited(1, schema))))
    return envelope("apiextensions.k8s.io/v1", "CustomResourceDefinition", raw)


def test_a_depth_bomb_is_refused() -> None:
    assert decode_error(nested_schema(3000)) == "messages are nested more than 100 deep"


def test_what_is_deep_but_read_can_be_written_as_json() -> None:
    _, _, crd = decode(nested_schema(94))
    text = orjson.dumps(crd)
    assert text.count(b'"properties"') == 94


def test_an_envelope_bomb_is_refused() -> None:
    data = encode({"apiVersion": "v1", "kind": "ConfigMap"})
    for _ in range(200):
        data = envelope("v1", "List", encode_delimited(2, encode_delimited(1, data)))
    assert decode_error(data) == "messages are nested more than 100 deep"


def test_encode_refuses_what_it_cannot_say() -> None:
    with pytest.raises(errors.NotAcceptable, match=r'no kind "Widget" of version "example\.com/v1"'):
        encode({"apiVersion": "example.com/v1", "kind": "Widget"})
    with pytest.raises(errors.InternalError, match="unable to encode ConfigMap of v1 as protobuf: "):
        encode({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": 1}})
    with pytest.raises(errors.InternalError, match="the time '2024-01-01T00:00:00' has no zone"):
        encode({"apiVersion": "v1", "kind": "Pod", "metadata": {"creationTimestamp": "2024-01-01T00:00:00"}})


@FUZZ
@given(st.binary(max_size=200))
def test_fuzz_garbage_never_raises_anything_else(garbage: bytes) -> None:
    for kind in ("Pod", "CustomResourceDefinition", "Event"):
        api_version = "apiextensions.k8s.io/v1" if kind.startswith("Custom") else "v1"
        for data in (garbage, b"k8s\x00" + garbage, envelope(api_version, kind, garbage)):
            _assert_decodes_or_fails(data)


@FUZZ
@given(st.sampled_from(GOLDEN), st.data())
def test_fuzz_damaged_samples(pair: dict[str, Any], data: st.DataObject) -> None:
    sample = bytearray.fromhex(pair["protobuf"])
    for _ in range(data.draw(st.integers(1, 4))):
        sample[data.draw(st.integers(4, len(sample) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(sample)))
    _assert_decodes_or_fails(bytes(sample))
    _assert_decodes_or_fails(bytes(sample[:cut]))


def _assert_decodes_or_fails(data: bytes) -> None:
    try:
        _, _, obj = decode(data)
    except errors.BadRequest:
        return
    assert orjson.loads(orjson.dumps(obj)) == obj
