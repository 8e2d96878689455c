"""Events by the rules of either form, roles whose rules come and go, certificates that are given."""

# ruff: noqa: E501 - one case, one line
from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator

from shoal.apiserver.pki.sign import new_ca
from tests.apiserver.kind_samples import signing_request
from tests.real.differential.asking import Ask, Object, Story
from tests.real.differential.kinds import MERGE, NAMESPACE

CORE = f"/api/v1/namespaces/{NAMESPACE}/events"
NEW = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
ROLES = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
MERGING = {"Content-Type": MERGE}
APPLYING = {"Content-Type": "application/apply-patch+yaml"}
TIME, LATER = "2024-01-02T03:04:05.000000Z", "2024-01-02T03:04:06.123456Z"
POD = {"kind": "Pod", "namespace": NAMESPACE, "name": "p"}
ALL: Object = {"reason": "Made", "type": "Normal", "eventTime": TIME, "reportingInstance": "c-1", "action": "Make"}


def stories() -> Iterator[Story]:
    for number, change in enumerate(_changes()):
        yield Story(f"events: new {number}", (Ask("POST", f"{NEW}?dryRun=All", _new("checked", **change)),))
        yield Story(f"events: old {number}", (Ask("POST", f"{CORE}?dryRun=All", _core("checked", **change)),))
    yield Story("events: changed", tuple(_changed()))
    yield Story("events: by both", tuple(_by_both()))
    yield Story("roles: rules", tuple(_rules()))
    yield Story("certificates: given", tuple(_given()))


def _new(name: str, **change: object) -> Object:
    head = {"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": name}}
    return {**head, "regarding": POD, **ALL, "reportingController": "example.com/c", **change}


def _core(name: str, **change: object) -> Object:
    names = {"regarding": "involvedObject", "note": "message", "reportingController": "reportingComponent",
             "deprecatedSource": "source", "deprecatedFirstTimestamp": "firstTimestamp",
             "deprecatedLastTimestamp": "lastTimestamp", "deprecatedCount": "count"}  # fmt: skip
    return {names.get(key, key): value for key, value in _new(name, **change).items()} | {"apiVersion": "v1"}


def _changes() -> Iterator[Object]:
    yield from ({}, {"regarding": {}}, {"regarding": {**POD, "namespace": "other"}}, {"regarding": {"kind": "Node", "name": "n"}})  # fmt: skip
    yield from ({"eventTime": None, "regarding": {}}, {"eventTime": None, "regarding": {**POD, "namespace": "other"}})
    yield from ({"type": ""}, {"type": "Odd"}, {"action": ""}, {"action": "x" * 129}, {"reason": ""}, {"reason": "x" * 129})  # fmt: skip
    yield from ({"reportingController": ""}, {"reportingController": "not a name"}, {"reportingController": "a/b/c"})
    yield from ({"reportingInstance": ""}, {"reportingInstance": "x" * 129}, {"note": "x" * 1025}, {"note": "é" * 513})
    yield from ({"deprecatedCount": 1}, {"deprecatedSource": {"component": "a"}}, {"deprecatedFirstTimestamp": "2024-01-02T03:04:05Z"})  # fmt: skip
    yield {"deprecatedLastTimestamp": "2024-01-02T03:04:05Z", "deprecatedSource": {"component": "a", "host": "b"}}
    yield from ({"series": {}}, {"series": {"count": 1, "lastObservedTime": TIME}}, {"series": {"count": 2}})
    yield from ({"series": {"count": 2, "lastObservedTime": LATER}}, {"related": {}}, {"related": POD})
    yield {"metadata": {"name": "A_b"}, "type": "Odd"}


def _changed() -> Iterator[Ask]:
    path = f"{NEW}/changed"
    yield Ask("POST", NEW, _new("changed"))
    for change in (
        {"note": "x"}, {"reason": "Other"}, {"type": "Warning"}, {"action": "Other"}, {"regarding": {"name": "q"}}, {"related": POD},
        {"eventTime": LATER}, {"eventTime": "2024-01-02T04:04:05.000000+01:00"}, {"eventTime": None}, {"reportingController": "other"},
        {"reportingInstance": "other"}, {"deprecatedCount": 2}, {"deprecatedSource": {"host": "h"}}, {"series": {"count": 1}},
        {"deprecatedFirstTimestamp": "2024-01-02T03:04:05Z"}, {"metadata": {"labels": {"a": "b"}}}, {"action": None, "type": None},
        {"series": {"count": 2, "lastObservedTime": LATER}}, {"series": {"count": 3}}, {"series": None},
    ):  # fmt: skip
        yield Ask("PATCH", path, change, MERGING)
    yield Ask("PATCH", f"{CORE}/changed", {"message": "by the other", "count": 7}, MERGING)
    yield Ask("PATCH", f"{CORE}/changed", {"action": "", "reportingComponent": "not a name"}, MERGING)
    table = {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
    yield Ask("GET", path, None, table)
    yield Ask("GET", f"{CORE}/changed", None, table)
    yield Ask("DELETE", path)


def _by_both() -> Iterator[Ask]:
    yield Ask("POST", f"{CORE}?fieldManager=core", _core("both"))
    yield Ask("GET", f"{NEW}/both")
    yield Ask("PATCH", f"{NEW}/both?fieldManager=new", {"metadata": {"labels": {"a": "b"}}}, MERGING)
    yield Ask("PATCH", f"{CORE}/both?fieldManager=core", {"metadata": {"labels": {"c": "d"}}}, MERGING)
    yield Ask("GET", f"{NEW}/both")
    yield Ask("PATCH", f"{NEW}/both?fieldManager=applier", _new("both"), APPLYING)
    yield Ask("PATCH", f"{CORE}/both?fieldManager=applier", _core("both", note="more"), APPLYING)
    yield Ask("DELETE", f"{CORE}/both", {"preconditions": {"uid": "00000000-0000-4000-8000-000000000000"}})
    yield Ask("DELETE", f"{CORE}/both")


def _rules() -> Iterator[Ask]:
    def role(**more: object) -> Object:
        head = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "ruled"}}
        return {**head, **more}

    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    path = f"{ROLES}/ruled"
    yield Ask("POST", f"{ROLES}?fieldManager=one", role())
    yield Ask("PUT", f"{path}?fieldManager=two", role(rules=[]))
    yield Ask("PUT", f"{path}?fieldManager=three", role(rules=None))
    yield Ask("PATCH", f"{path}?fieldManager=four", {"rules": [rule]}, MERGING)
    yield Ask("PATCH", f"{path}?fieldManager=applier", role(rules=[rule]), APPLYING)
    yield Ask("PUT", f"{path}?fieldManager=five", role())
    yield Ask("PATCH", f"{path}?fieldManager=applier&force=true", role(rules=[]), APPLYING)
    yield Ask("PATCH", f"{path}?fieldManager=applier", role(rules=[]), APPLYING)
    yield Ask("PATCH", f"{path}?fieldManager=applier", role(), APPLYING)
    yield Ask("DELETE", path)


def _given() -> Iterator[Ask]:
    spec = {"request": signing_request(), "signerName": "example.com/signer", "usages": ["client auth"]}
    path = f"{REQUESTS}/given"
    head = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "given", "labels": {"a": "b"}}}  # fmt: skip
    yield Ask("POST", REQUESTS, {**head, "spec": spec})
    certificate, key = new_ca(1.7e9, 2.7e9)
    texts = (b"x", key, certificate + key, certificate.replace(b"-----\n", b"-----\nA: b\n\n", 1), b"x\n" + certificate)
    yield Ask("PATCH", f"{path}/approval", {"status": {"conditions": [{"type": "Approved", "status": "True"}]}}, MERGING)  # fmt: skip
    for text in (*texts, certificate + b"\n" + certificate, certificate):
        yield Ask("PATCH", f"{path}/status", {"status": {"certificate": b64encode(text).decode()}}, MERGING)
    yield Ask("PATCH", f"{path}/status", {"status": {"conditions": [{"type": "Failed", "status": "True"}]}}, MERGING)
    yield Ask("PATCH", f"{path}/approval", {"status": {"certificate": None}}, MERGING)
    yield Ask("PATCH", path, {"status": None, "metadata": {"labels": {"a": "c"}}}, MERGING)
    yield Ask("GET", path)
    yield Ask("DELETE", path)
