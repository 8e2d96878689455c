"""Bodies that no client should send: each is refused in upstream's words, and costs little."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.serving import WIDGETS, Answer, Cluster, config_map, widget

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PROTOBUF = "application/vnd.kubernetes.protobuf"
LIMIT = 3 * 1024 * 1024
GOLDEN = json.loads((Path(__file__).parent.parent / "objects" / "protobuf_golden.json").read_text())


def refused(answer: Answer, status: int, reason: str, message: str) -> None:
    """A v1.Status of that code whose message begins so."""
    found = answer.json
    assert (answer.status, found["kind"], found["code"], found["reason"]) == (status, "Status", status, reason), found
    assert found["status"] == "Failure"
    assert found["message"].startswith(message), found["message"]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)"),
        (b"{", "couldn't get version/kind; json parse error: unexpected end of JSON input ({)"),
        (b"hi", "couldn't get version/kind; json parse error: invalid character 'h' looking for beginning of value"),
        (b"{,}", "couldn't get version/kind; json parse error: invalid character ',' looking for beginning of object"),
        (b"[]", "couldn't get version/kind; json parse error: json: cannot unmarshal array into "),
        (b"\xff\xfe", "couldn't get version/kind; json parse error: invalid UTF-8 in JSON input (fffe)"),
        (b'{"a":NaN}', "couldn't get version/kind; json parse error: invalid character 'N' looking for beginning of"),
        (b'{"a":1e999}', "couldn't get version/kind; json parse error: json: cannot unmarshal number 1e999 into"),
        (b"[" * 100_000, "couldn't get version/kind; json parse error: invalid character '[' exceeded max depth (5b5b"),
        (b'{"a":' * 100_000, "couldn't get version/kind; json parse error: invalid character '{' exceeded max depth ("),
        (b" " * LIMIT, "couldn't get version/kind; json parse error: unexpected end of JSON input (2020"),
    ],
    ids=lambda value: repr(value[:12]) if isinstance(value, bytes) else "",
)
def test_what_is_no_json_object_is_refused(cluster: Cluster, body: bytes, why: str) -> None:
    for path, kind in ((CONFIG_MAPS, "ConfigMap"), (WIDGETS, "Widget")):
        said = f"the object provided is unrecognized (must be of type {kind}): {why}"
        refused(cluster.post(path, body), 400, "BadRequest", said)


def test_body_over_the_limit_is_refused_and_one_at_the_limit_is_read(cluster: Cluster) -> None:
    other = Cluster(cluster.server, cluster.name)
    refused(
        other.post(CONFIG_MAPS, b"x" * (LIMIT + 1)), 413, "RequestEntityTooLarge", "Request entity too large: limit is"
    )
    other.close()
    padded = json.dumps(config_map("a")).encode()
    assert cluster.post(CONFIG_MAPS, padded + b" " * (LIMIT - len(padded))).status == 201


def test_many_keys_and_a_huge_string_are_just_large_objects(cluster: Cluster) -> None:
    many = cluster.post(CONFIG_MAPS, config_map("many", {f"k{number}": "v" for number in range(50_000)}))
    assert len(many.ok()["data"]) == 50_000
    more = cluster.post(CONFIG_MAPS, config_map("more", {f"k{number}": "v" for number in range(100_000)}))
    refused(more, 413, "RequestEntityTooLarge", "Request entity too large: limit is 1572864")
    large = cluster.post(CONFIG_MAPS, config_map("large", {"k": "v" * 2_000_000}))
    refused(large, 422, "Invalid", 'ConfigMap "large" is invalid: []: Too long: may not be more than 1048576 bytes')
    free = widget("large") | {"status": {}, "spec": {"size": 1, "parts": [{"name": "v" * 700_000}]}}
    assert len(cluster.post(WIDGETS, free).ok()["spec"]["parts"][0]["name"]) == 700_000


def test_warnings_about_ten_thousand_fields_fit_into_a_head(cluster: Cluster) -> None:
    """As upstream: 4,096 characters of all of them, 256 of each once they are more than that."""
    fields = {f"{number:05}{'x' * 95}": 1 for number in range(10_000)}
    connection = cluster.server.connect()
    headers = {"Authorization": f"Bearer {cluster.server.token}", "Content-Type": "application/json"}
    body = json.dumps({**config_map("a"), **fields, "y" * 400: 1})
    connection.request("POST", f"{cluster.prefix}{CONFIG_MAPS}", body, headers)
    answer = connection.getresponse()
    warnings = answer.headers.get_all("Warning", [])
    answer.read()
    connection.close()
    assert answer.status == 201
    assert warnings[0] == f'299 - "unknown field \\"00000{"x" * 95}\\""'
    assert len(warnings) == 36


def test_one_long_warning_is_whole(cluster: Cluster) -> None:
    answer = cluster.post(CONFIG_MAPS, {**config_map("a"), "y" * 3000: 1})
    assert answer.headers["warning"] == f'299 - "unknown field \\"{"y" * 3000}\\""'


def test_numbers_beyond_every_type_are_refused(cluster: Cluster) -> None:
    body = json.dumps(widget("a")).encode().replace(b'"size": 1', b'"size": 1%b' % (b"0" * 5000))
    answer = cluster.post(WIDGETS, body)
    refused(
        answer, 400, "BadRequest", "the object provided is unrecognized (must be of type Widget): couldn't get versi"
    )
    assert "json: cannot unmarshal number 1000" in answer["message"]
    body = json.dumps(widget("a")).encode().replace(b'"size": 1', b'"size": 1%b' % (b"0" * 30))
    refused(cluster.post(WIDGETS, body), 422, "Invalid", 'Widget.example.com "a" is invalid: [spec.size: Invalid value')


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/xml", "garbage", "application/x-www-form-urlencoded", "application/cbor"],
)
def test_wrong_content_type_is_refused(cluster: Cluster, content_type: str) -> None:
    for path in (CONFIG_MAPS, WIDGETS):
        answer = cluster.post(path, b"{}", Content_Type=content_type)
        refused(
            answer,
            415,
            "UnsupportedMediaType",
            "the body of the request was in an unknown format - accepted media types include: application/json",
        )
    answer = cluster.request("PATCH", f"{CONFIG_MAPS}/a", b"{}", Content_Type=content_type)
    refused(answer, 415, "UnsupportedMediaType", "415: Unsupported Media Type")


@pytest.mark.parametrize(
    "body",
    [
        b"k8s",
        b"K8S\0abc",
        b"\0" * 50,
        b"k8s\0",
        b"k8s\0garbage",
        b"k8s\0\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"k8s\0" + b"\x0a\x7f" * 1000,
        b"{}",
    ],
)
def test_protobuf_garbage_is_refused(cluster: Cluster, body: bytes) -> None:
    answer = cluster.post(CONFIG_MAPS, body, Content_Type=PROTOBUF)
    refused(answer, 400, "BadRequest", "the object provided is unrecognized (must be of type ConfigMap): ")


def test_truncated_protobuf_never_breaks(cluster: Cluster) -> None:
    sample = next(bytes.fromhex(each["protobuf"]) for each in GOLDEN if each["json"]["kind"] == "ConfigMap")
    for length in range(len(sample)):
        answer = cluster.post(f"{CONFIG_MAPS}?dryRun=All", sample[:length], Content_Type=PROTOBUF)
        assert answer.status in (400, 422), (length, answer.body)


def nested(levels: int, width: int) -> str:
    """Billion laughs: each level names the one before `width` times."""
    lines = ["a0: &a0 [" + ",".join("x" * width) + "]"]
    lines += [f"a{n}: &a{n} [" + ",".join([f"*a{n - 1}"] * width) + "]" for n in range(1, levels)]
    return "\n".join(lines)


HEAD = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec: {size: 1}\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (HEAD + nested(12, 9), "yaml: document contains excessive aliasing"),
        (HEAD + "a: &a " + "x" * 1_000_000 + "\nb: [" + ",".join(["*a"] * 1000) + "]", "yaml: document contains"),
        (HEAD + "a: &a [*a]\n", "yaml: anchor 'a' value contains itself"),
        ("&a {a: *a}", "yaml: anchor 'a' value contains itself"),
        ("[" * 200_000, "exceeded max depth"),
        ("- " * 200_000, "exceeded max depth"),
        ("{a: " * 200_000, "exceeded max depth"),
        (HEAD + "a: !!python/name:os.system x", "yaml: cannot decode a value of the tag"),
        (HEAD + "a: !!binary aGk=", "yaml: cannot decode a value of the tag"),
        (HEAD + "a: .nan", "json: unsupported value: .nan"),
        (HEAD + "? [a]\n: b", "a key of a mapping must be text"),
        ("a: b: c", "yaml: mapping values are not allowed in this context"),
        ("a: [\n", "yaml: line 1: did not find expected node content"),
        ("a:\n\t- b\n", "yaml: line 2: found character that cannot start any token"),
        ("\0", "yaml: control characters are not allowed"),
    ],
    ids=lambda text: repr(text[-12:]),
)
def test_yaml_bombs_cost_nothing(cluster: Cluster, text: str, why: str) -> None:
    said = f"the object provided is unrecognized (must be of type Widget): {why}"
    refused(cluster.post(WIDGETS, text.encode(), Content_Type="application/yaml"), 400, "BadRequest", said)
    if text[0] != "{":
        applied = cluster.patch(f"{WIDGETS}/a?fieldManager=m", text.encode(), "apply")
        refused(applied, 400, "BadRequest", f"error decoding YAML: error converting YAML to JSON: {why}")


def test_yaml_is_read_as_kubernetes_reads_it(cluster: Cluster) -> None:
    text = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
        "data: {1: '2', true: x, date: '2020-01-01', base: &b '7', again: *b}\n"
    )
    made = cluster.post(CONFIG_MAPS, text.encode(), Content_Type="application/yaml").ok()
    assert made["data"] == {"1": "2", "true": "x", "date": "2020-01-01", "base": "7", "again": "7"}


METADATA: list[tuple[dict[str, Any], str]] = [
    ({"labels": []}, "array into Go struct field ObjectMeta.labels of type map[string]string"),
    ({"labels": {"a": 1}}, "number into Go struct field ObjectMeta.labels of type string"),
    ({"name": 5}, "number into Go struct field ObjectMeta.name of type string"),
    ({"name": ["x"]}, "array into Go struct field ObjectMeta.name of type string"),
    ({"generateName": {}}, "object into Go struct field ObjectMeta.generateName of type string"),
    ({"namespace": True}, "bool into Go struct field ObjectMeta.namespace of type string"),
    ({"annotations": {"a": 5}}, "number into Go struct field ObjectMeta.annotations of type string"),
    ({"ownerReferences": "x"}, "string into Go struct field ObjectMeta.ownerReferences of type []v1.OwnerReference"),
    ({"ownerReferences": [5]}, "number into Go struct field ObjectMeta.ownerReferences of type v1.OwnerReference"),
    ({"ownerReferences": [{"uid": 5}]}, "number into Go struct field ObjectMeta.ownerReferences.uid of type string"),
    ({"finalizers": {}}, "object into Go struct field ObjectMeta.finalizers of type []string"),
    ({"finalizers": [1]}, "number into Go struct field ObjectMeta.finalizers of type string"),
    ({"managedFields": "x"}, "string into Go struct field ObjectMeta.managedFields of type []v1.ManagedFieldsEntry"),
    ({"managedFields": [{"manager": 5}]}, "number into Go struct field ObjectMeta.managedFields.manager of type stri"),
    ({"uid": {}}, "object into Go struct field ObjectMeta.uid of type string"),
    ({"generation": "x"}, "string into Go struct field ObjectMeta.generation of type int64"),
    ({"creationTimestamp": 5}, "number into Go struct field ObjectMeta.creationTimestamp of type string"),
]


@pytest.mark.parametrize(("metadata", "why"), METADATA, ids=lambda value: str(value)[:30])
def test_metadata_of_wrong_types_is_refused(cluster: Cluster, metadata: dict[str, Any], why: str) -> None:
    said = f'Widget in version "v1" cannot be handled as a Widget: json: cannot unmarshal {why}'
    refused(cluster.post(WIDGETS, widget("a") | {"metadata": {"name": "a"} | metadata}), 400, "BadRequest", said)
    field = next(iter(metadata))
    answer = cluster.post(CONFIG_MAPS, config_map("a") | {"metadata": {"name": "a"} | metadata})
    refused(answer, 400, "BadRequest", 'ConfigMap in version "v1" cannot be handled as a ConfigMap: ')
    assert field in answer["message"]
    cluster.post(WIDGETS, widget("b")).ok()
    for kind in ("merge", "apply"):
        path = f"{WIDGETS}/b" + ("?fieldManager=m" if kind == "apply" else "")
        body = widget("b") | {"metadata": {"name": "b"} | metadata} if kind == "apply" else {"metadata": metadata}
        answer = cluster.patch(path, body, kind)
        assert answer.status in (400, 422), answer.body
    assert cluster.get(f"{WIDGETS}/b").ok()["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    "name",
    ["A_b", "..", ".", "a/b", "x" * 300, "ü", "a\0b", "-a", "a b", "%", "a\r\nX-Evil: 1"],
    ids=lambda text: text[:9],
)
def test_invalid_names_are_refused(cluster: Cluster, name: str) -> None:
    refused(cluster.post(CONFIG_MAPS, config_map(name)), 422, "Invalid", f'ConfigMap "{name}" is invalid: metadata.nam')
    refused(cluster.post(WIDGETS, widget(name)), 422, "Invalid", f'Widget.example.com "{name}" is invalid: metadata.na')
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    refused(cluster.post("/api/v1/namespaces", namespace), 422, "Invalid", f'Namespace "{name}" is invalid: ')


def test_object_of_another_place_is_refused(cluster: Cluster) -> None:
    mismatch = "the namespace of the provided object does not match the namespace sent on the request"
    refused(cluster.post(CONFIG_MAPS, config_map("a", namespace="other")), 400, "BadRequest", mismatch)
    nowhere = "/api/v1/namespaces/nowhere/configmaps"
    refused(cluster.post(nowhere, config_map("a")), 404, "NotFound", 'namespaces "nowhere" not found')
    refused(cluster.post(WIDGETS, config_map("a")), 400, "BadRequest", "")
    wrong = config_map("a") | {"apiVersion": "v9"}
    refused(cluster.post(CONFIG_MAPS, wrong), 400, "BadRequest", 'ConfigMap in version "v9" cannot be handled as a Co')


@pytest.mark.parametrize("metadata", ["x", ["A_b"], 5, None])
@pytest.mark.parametrize("api_version", ["example.com/v1", [], "v9"])
def test_metadata_that_is_no_object_of_another_kind(cluster: Cluster, metadata: object, api_version: object) -> None:
    cluster.post(WIDGETS, widget("a")).ok()
    wrong = {"apiVersion": api_version, "kind": "Gadget", "metadata": metadata, "spec": {"size": 1}}
    for kind in ("merge", "apply"):
        answer = cluster.patch(f"{WIDGETS}/a?fieldManager=m", wrong, kind)
        assert answer.status in (400, 422), answer.body
    assert cluster.post(WIDGETS, wrong).status in (400, 422)
