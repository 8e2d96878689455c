"""An hour of requests nobody would send (`make soak`; SHOAL_FUZZ_MINUTES, an hour's sixth by default).

Parts of equal length: objects, patches, selectors and protobuf through the handler, in a hub and in a whole cluster;
bytes that are almost HTTP through the socket; rules in CEL that are almost right, in definitions and in policies.
No 500, no error in the log, no request that hangs, no memory that grows for ever. What fails prints its seed.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from shoal.objects.wire import Request
from tests.faults.quiet import check_cache, errors_logged
from tests.faults.requests import bent, request_of
from tests.faults.test_fuzz import check, handled, prepared, served
from tests.serving import DEFINITIONS, Server, fresh_cluster

pytestmark = pytest.mark.soak

MINUTES = float(os.environ.get("SHOAL_FUZZ_MINUTES", "10"))
PARTS = 4
GROWTH = 600
"""Megabytes."""
GOLDEN = Path(__file__).parent.parent / "objects" / "cel" / "golden.json"
EXPRESSIONS: list[str] = [case["expression"] for case in json.loads(GOLDEN.read_text())]
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
SAMPLES = "/apis/example.com/v1/namespaces/default/samples"
TOKENS = [
    "self", ".", "(", ")", "[", "]", "{", "}", "&&", "||", "!", "?", ":", ",", "==", "<", "in", "has(", "size(", "'",
    '"', "\\", "1", "-9223372036854775808", "1e999", "0x", "u", "null", ".map(x, x)", ".all(x, ", "oldSelf", "dyn(",
    ".matches('(a+)+$')", "optional.of(", "timestamp('x')", "duration('1h')", "self.s * 1000000", "\u0000", "ü",
]  # fmt: skip


@pytest.fixture(autouse=True)
def memory() -> Iterator[None]:
    before = megabytes()
    yield
    assert megabytes() - before < GROWTH


def megabytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def for_a_while(run: Callable[[Random], None]) -> None:
    end, seed = time.monotonic() + MINUTES * 60 / PARTS, int(time.time()) << 20
    count = 0
    with errors_logged() as records:
        while time.monotonic() < end:
            seed, count = seed + 1, count + 1
            try:
                run(Random(seed))
            except Exception as error:
                error.add_note(f"with the seed {seed}")
                raise
            assert [record.getMessage() for record in records] == [], f"with the seed {seed}"
    print(f"{count} requests")


def test_objects_of_a_hub(server: Server) -> None:
    cluster, resources = prepared(server)

    def run(dice: Random) -> None:
        request = request_of(dice, cluster.prefix, server.token, resources)
        check(request, *server.call(handled(server, request)))

    for_a_while(run)
    assert check_cache(server, cluster.name) > 10
    cluster.close()


def test_objects_of_a_whole_cluster(server: Server) -> None:
    cluster = fresh_cluster(server, "cluster")
    resources = served(cluster)

    def run(dice: Random) -> None:
        request = request_of(dice, cluster.prefix, server.token, resources)
        check(request, *server.call(handled(server, request)))

    for_a_while(run)
    check_cache(server, cluster.name)
    cluster.close()


def test_bytes_that_are_almost_http(server: Server) -> None:
    cluster, resources = prepared(server)

    def run(dice: Random) -> None:
        request = request_of(dice, cluster.prefix, server.token, resources)
        with (
            socket.create_connection(("127.0.0.1", server.port), timeout=60) as plain,
            server.context.wrap_socket(plain, server_hostname="127.0.0.1") as wire,
        ):
            for piece in pieces(dice, almost(dice, request)):
                try:
                    wire.sendall(piece)
                except OSError:
                    break  # it has heard enough
            try:
                wire.unwrap().close()
            except OSError:
                return
        assert cluster.get("/livez").body == b"ok"

    for_a_while(run)
    cluster.close()


def almost(dice: Random, request: Request) -> bytes:
    lines = [f"{request.method} {request.path}?{request.query} HTTP/1.1".encode(), b"Host: shoal"]
    lines += [f"{name}: {value}".encode("utf-8", "replace") for name, value in request.headers.items()]
    lines.append(b"Content-Length: %d" % dice.choice([len(request.body), 0, len(request.body) + 7, 2**40]))
    if dice.random() < 0.2:
        lines.append(b"Transfer-Encoding: chunked")
    data = bytearray(b"\r\n".join([*lines, b"", request.body]))
    for _ in range(dice.choice([0, 0, 1, 2, 5])):
        data[dice.randrange(len(data))] = dice.randrange(256)
    return bytes(data)


def pieces(dice: Random, data: bytes) -> Iterator[bytes]:
    while data:
        size = dice.choice([len(data), 1, 20, 1000])
        yield data[:size]
        data = data[size:] if dice.random() < 0.95 else b""


def test_rules_that_are_almost_right(server: Server) -> None:
    cluster = fresh_cluster(server, "cluster")

    def run(dice: Random) -> None:
        choice = dice.random()
        if choice < 0.4:
            answer = cluster.post(DEFINITIONS, definition(expression(dice)))
            assert answer.status in (201, 409, 422), answer.body
            if answer.status == 201:
                for _ in range(3):
                    made = cluster.post(SAMPLES, bent(dice, sample()))
                    assert made.status in (201, 400, 404, 409, 422), made.body
                cluster.delete(f"{DEFINITIONS}/samples.example.com")
                cluster.eventually(lambda: cluster.get(f"{DEFINITIONS}/samples.example.com").status == 404)
        else:
            answer = cluster.post(f"{POLICIES}?dryRun=All", policy(expression(dice), expression(dice)))
            assert answer.status in (201, 422), answer.body

    for_a_while(run)
    cluster.close()


def expression(dice: Random) -> str:
    """One that is right, cut into pieces and put together with others."""
    text = dice.choice(EXPRESSIONS)
    for _ in range(dice.choice([0, 1, 1, 2, 4, 30])):
        at = dice.randrange(len(text) + 1)
        choice = dice.random()
        if choice < 0.4:
            text = text[:at] + dice.choice(TOKENS) + text[at:]
        elif choice < 0.7:
            text = text[:at] + text[at + dice.randrange(6) :]
        else:
            other = dice.choice(EXPRESSIONS)
            text = text[:at] + other[dice.randrange(len(other) + 1) :]
    return text[:5000] or "true"


def definition(rule: str) -> dict[str, Any]:
    text, number = {"type": "string", "maxLength": 20}, {"type": "integer"}
    fields = {
        "s": text, "t": text, "e": text, "i": number, "j": number, "b": {"type": "boolean"}, "n": {"type": "number"},
        "li": {"type": "array", "maxItems": 9, "items": number}, "ls": {"type": "array", "items": text},
        "m": {"type": "object", "additionalProperties": text},
        "o": {"type": "object", "properties": {"x": number}},
    }  # fmt: skip
    spec = {"type": "object", "properties": fields, "x-kubernetes-validations": [{"rule": rule}]}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "samples.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "samples", "singular": "sample", "kind": "Sample", "listKind": "SampleList"},
            "versions": [version],
        },
    }


def sample() -> dict[str, Any]:
    values = {"s": "ab", "t": "abc", "e": "", "i": 3, "j": -7, "b": True, "n": 2.5, "li": [1, 2], "ls": ["a"]}
    spec = {**values, "m": {"k1": "v"}, "o": {"x": 1}}
    return {"apiVersion": "example.com/v1", "kind": "Sample", "metadata": {"generateName": "s"}, "spec": spec}


def policy(first: str, second: str) -> dict[str, Any]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "variables": [{"name": "v", "expression": first.replace("self", "object")}],
            "validations": [{"expression": second.replace("self", "object"), "messageExpression": first}],
        },
    }
