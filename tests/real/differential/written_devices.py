"""Devices and who claims them (resource.k8s.io), APIServices: what their validation looks at, field by field."""

# ruff: noqa: E501 - one case, one line
from __future__ import annotations

from collections.abc import Iterator

from tests.real.differential.asking import Ask, Object, Story
from tests.real.differential.kinds import MERGE, NAMESPACE

ROOT = "/apis/resource.k8s.io/v1"
CLASSES, SLICES = f"{ROOT}/deviceclasses", f"{ROOT}/resourceslices"
CLAIMS, TEMPLATES = (f"{ROOT}/namespaces/{NAMESPACE}/{name}" for name in ("resourceclaims", "resourceclaimtemplates"))
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
GPU = {"deviceClassName": "gpu.example.com"}
POOL = {"name": "n", "generation": 1, "resourceSliceCount": 1}
LONG = "x" * 70


def made(kind: str, spec: Object, name: str = "checked") -> Object:
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def stories() -> Iterator[Story]:
    for number, spec in enumerate(_classes()):
        yield _checked(f"classes {number}", CLASSES, made("DeviceClass", spec))
    for number, devices in enumerate(_claims()):
        yield _checked(f"claims {number}", CLAIMS, made("ResourceClaim", {"devices": devices}))
    for number, metadata in enumerate(_metadata()):
        template = {"metadata": metadata, "spec": {"devices": {"requests": [{"name": "a", "exactly": GPU}]}}}
        yield _checked(f"templates {number}", TEMPLATES, made("ResourceClaimTemplate", template))
    for number, spec in enumerate(_slices()):
        whole = {"driver": "gpu.example.com", "nodeName": "n", "pool": POOL, **spec}
        yield _checked(f"slices {number}", SLICES, made("ResourceSlice", whole))
    for number, status in enumerate(_statuses()):
        yield Story(f"devices: statuses {number}", tuple(_told(f"told-{number}", status)))
    yield Story("devices: changes", tuple(_changes()))
    yield Story("devices: who may tell", tuple(_tellers()))
    yield Story("devices: administrators", tuple(_administrators()))
    for number, spec in enumerate(_services()):
        service = {"group": "example.org", "version": "v2", "groupPriorityMinimum": 7, "versionPriority": 7, **spec}
        body = {"kind": "APIService", "metadata": {"name": "v2.example.org"}, "spec": service}
        yield _checked(f"services {number}", SERVICES, {"apiVersion": "apiregistration.k8s.io/v1", **body})


def _checked(name: str, path: str, body: Object) -> Story:
    return Story(f"devices: {name}", (Ask("POST", f"{path}?dryRun=All", body),))


def _classes() -> Iterator[Object]:
    for expression in (
        'device.driver == "a"', 'device.attributes["a.b"].c', 'device.attributes["a.b"].c == 1', "device.allowMultipleAllocations",
        'device.capacity["a.b"].c.compareTo(quantity("1Gi")) > 0', 'cel.bind(a, device.attributes["a.b"], a.b && a.c)',
        'device.attributes["a.b"].c.isGreaterThan(semver("1.0.0"))', "true", "1", "device", "device.attributes", "device.other", "x", "",
        "device.driver ==", 'device.attributes.all(d, device.attributes[d].all(a, device.attributes[d][a] == "x"))',
        "device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, device.attributes.all(d, a + b + c == d))))",
        '"gpu" in device.attributes && has(device.capacity.gpu)',
    ):  # fmt: skip
        yield {"selectors": [{"cel": {"expression": expression}}]}
    yield {"selectors": [{"cel": {"expression": "true" + 11000 * " "}}]}
    yield {"selectors": 33 * [{"cel": {"expression": "true"}}]}
    for opaque in ({}, {"driver": "a"}, {"driver": "A.b", "parameters": {"a": 1}}, {"driver": "a b", "parameters": {}}):
        yield {"config": [{"opaque": opaque}]}
    yield {"config": [{"opaque": {"driver": "a", "parameters": [1]}}]}
    yield {"config": [{"opaque": {"driver": "a", "parameters": {"a": 11000 * "x"}}}]}
    yield from (
        {"extendedResourceName": name} for name in ("example.com/gpu", "cpu", "kubernetes.io/a", "requests.a/b")
    )


def _claims() -> Iterator[Object]:
    for exactly in (
        GPU, {}, {"deviceClassName": "A"}, {**GPU, "count": 3}, {**GPU, "count": -1}, {**GPU, "allocationMode": "All"},
        {**GPU, "allocationMode": "All", "count": 2}, {**GPU, "allocationMode": "x"}, {**GPU, "selectors": [{}]},
        {**GPU, "selectors": [{"cel": {"expression": "a"}}]}, {**GPU, "tolerations": [{}]}, {**GPU, "adminAccess": False},
        {**GPU, "tolerations": [{"key": "a b", "operator": "Exists", "value": "x"}]}, {**GPU, "adminAccess": True},
        {**GPU, "tolerations": [{"key": "a", "operator": "In", "effect": "Never"}]},
        {**GPU, "tolerations": [{"key": "a", "operator": "Equal", "value": "a b", "effect": "NoSchedule", "tolerationSeconds": 3}]},
        {**GPU, "capacity": {"requests": {"a.b/memory": "0.5Gi", "x": 1}}}, {**GPU, "capacity": {"requests": {"a": "x"}}},
    ):  # fmt: skip
        yield {"requests": [{"name": "a", "exactly": exactly}]}
    one = {"name": "a", "exactly": GPU}
    first = {"name": "b", "firstAvailable": [{"name": "c", **GPU}, {"name": "d", **GPU, "count": 2}]}
    yield from (
        {},
        {"requests": None},
        {"requests": [one, first]},
        {"requests": [one, one]},
        {"requests": [{**one, **first}]},
    )
    yield from (
        {"requests": [{"name": "a"}]},
        {"requests": [{"name": "A.b", "exactly": GPU}]},
        {"requests": [{"name": LONG, "exactly": GPU}]},
    )
    yield {"requests": [{"name": "a", "firstAvailable": [{"name": "b", **GPU}, {"name": "b"}]}]}
    yield {"requests": [{"name": "a", "firstAvailable": [{"name": f"b{i}", **GPU} for i in range(9)]}]}
    yield {"requests": [{"name": f"a{i}", "exactly": GPU} for i in range(33)]}
    both = [one, first]
    for attribute in ("a.b/c", "c", "/c", "a.b/", "a.b/c/d", "a b/c", f"a.b/{LONG}", f"{LONG}/c", "a.b/c-d"):
        yield {"requests": both, "constraints": [{"matchAttribute": attribute}]}
    for names in (["a"], ["b/c", "b/d"], ["b/x"], ["a/b/c"], ["a", "a"], ["A"], ["x"], [""], ["a/"]):
        yield {"requests": both, "constraints": [{"requests": names, "distinctAttribute": "a.b/c"}]}
        yield {"requests": both, "config": [{"requests": names, "opaque": {"driver": "a", "parameters": {}}}]}
    yield {"requests": both, "constraints": [{"matchAttribute": "a.b/c", "distinctAttribute": "a.b/d"}]}


def _metadata() -> Iterator[Object]:
    yield from (
        {},
        {"labels": {"a": "b"}, "annotations": {"A": "b"}},
        {"labels": {"a b": "c d"}},
        {"annotations": {"a b": "c"}},
    )
    yield from (
        {"name": "x"},
        {"generateName": "x"},
        {"uid": "x", "finalizers": ["a/b"], "namespace": "x"},
        {"generation": 3},
    )


def _device(**more: object) -> Object:
    return {"devices": [{"name": "a", **more}]}


def _slices() -> Iterator[Object]:
    zone = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
    yield from (
        {},
        {"driver": "A.b"},
        {"driver": LONG},
        {"driver": "a b"},
        {"nodeName": ""},
        {"nodeName": "A"},
        {"nodeName": None},
    )
    yield from (
        {"nodeName": None, "nodeSelector": zone},
        {"nodeName": None, "nodeSelector": {}},
        {"nodeSelector": zone},
    )
    yield from ({"nodeName": None, "allNodes": True}, {"nodeName": None, "allNodes": False}, {"allNodes": False})
    yield from ({"perDeviceNodeSelection": False}, {"nodeName": None, "perDeviceNodeSelection": True, **_device()})
    for place in (
        {"nodeName": "n"},
        {"nodeName": ""},
        {"allNodes": True, "nodeName": "n"},
        {"allNodes": False},
        {"nodeSelector": zone},
    ):
        yield {"nodeName": None, "perDeviceNodeSelection": True, **_device(**place)}
    yield _device(allNodes=True)
    yield from (
        {"pool": {}},
        {"pool": {"name": "a/b/c", "resourceSliceCount": 1}},
        {"pool": {"name": "a//b", "resourceSliceCount": -1}},
    )
    yield from (
        {"pool": {**POOL, "generation": -1}},
        {"pool": {**POOL, "name": 300 * "x"}},
        {"devices": []},
        {"devices": [{}]},
    )
    yield from ({"devices": [{"name": "a"}, {"name": "a"}]}, {"devices": [{"name": f"d{i}"} for i in range(129)]})
    yield {"devices": [{"name": f"d{i}", "taints": [{"key": "a", "effect": "None"}]} for i in range(65)]}
    attribute: Object
    for attribute in (
        {}, {"int": 1}, {"bool": False}, {"string": "x"}, {"string": LONG}, {"version": "1.2.3"}, {"version": "1.2"}, {"int": 1, "bool": True},
        {"version": f"1.2.3-{LONG}"}, {"ints": [1]}, {"strings": []},
    ):  # fmt: skip
        yield _device(attributes={"a": attribute})
    yield from (
        _device(attributes={name: {"int": 1}})
        for name in ("a.b/c", "a-b", "/c", "c/", "a/b/c", LONG, f"a.b/{2 * LONG}")
    )
    yield _device(attributes={f"a{i}": {"int": i} for i in range(33)})
    yield from (
        _device(capacity={"a": held})
        for held in ({}, {"value": "0.5Gi"}, {"value": "1e3"}, {"value": "x"}, {"value": 12})
    )
    for policy in (
        {}, {"default": "1"}, {"default": "1", "validValues": ["1", "2"]}, {"validValues": ["1"]}, {"default": "3", "validValues": ["2", "1", "1"]},
        {"default": "1", "validValues": [str(i) for i in range(1, 12)]}, {"default": "1", "validRange": {}}, {"validRange": {"min": "1"}},
        {"default": "1", "validRange": {"min": "1", "max": "9", "step": "2"}}, {"default": "2", "validRange": {"min": "1", "max": "8", "step": "2"}},
        {"default": "11", "validRange": {"min": "12", "max": "11"}}, {"default": "1", "validValues": ["1"], "validRange": {"min": "1"}},
        {"default": "1", "validRange": {"min": "1", "step": "20"}}, {"default": "0.5", "validRange": {"min": "0.5"}},
    ):  # fmt: skip
        yield _device(allowMultipleAllocations=True, capacity={"a": {"value": "10", "requestPolicy": policy}})
    yield _device(capacity={"a": {"value": "10", "requestPolicy": {"default": "1"}}})
    for taint in (
        {},
        {"key": "a", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"},
        {"key": "a b", "value": "c d", "effect": "x"},
        {"key": "a", "effect": "NoExecute"},
    ):
        yield _device(taints=[taint])
    yield _device(taints=17 * [{"key": "a", "effect": "None"}])
    for counters in (
        {},
        {"counterSet": "a", "counters": {"b": {"value": "1Gi"}}},
        {"counterSet": "A", "counters": {"B": {}}},
    ):
        yield _device(consumesCounters=[counters])
    yield _device(consumesCounters=2 * [{"counterSet": "a", "counters": {"b": {"value": "1"}}}])
    yield _device(consumesCounters=[{"counterSet": f"a{i}", "counters": {"b": {"value": "1"}}} for i in range(3)])
    for good, bad in (
        (["a"], None),
        (None, ["a"]),
        (["a"], ["b"]),
        (["a", "a"], ["b", "b"]),
        (["a"], ["a"]),
        (["a b"], ["c d"]),
        (list("abcde"), list("vwxyz")),
    ):
        yield _device(bindingConditions=good, bindingFailureConditions=bad, bindsToNode=True)
    yield _device(nodeAllocatableResourceMappings={"cpu": {}})
    counters = {"name": "a", "counters": {"memory": {"value": "1024Mi"}}}
    yield from (
        {"sharedCounters": [counters]},
        {"sharedCounters": [counters, counters]},
        {"sharedCounters": [counters], **_device()},
    )
    yield from ({"sharedCounters": [{}]}, {"sharedCounters": [{**counters, "name": f"a{i}"} for i in range(9)]})
    yield {"sharedCounters": [{"name": "a", "counters": {f"c{i}": {"value": "1"} for i in range(33)}}]}


RESULT = {"request": "a", "driver": "gpu.example.com", "pool": "n", "device": "d"}
DEVICE = {"driver": "gpu.example.com", "pool": "n", "device": "d"}
SHARE = "0a000000-0000-4000-8000-00000000000b"


def _statuses() -> Iterator[Object]:
    allocation = {"devices": {"results": [RESULT]}}
    consumer = {"resource": "pods", "name": "p", "uid": "u"}
    for result in (
        {}, RESULT, {**RESULT, "request": "b"}, {**RESULT, "driver": "a b"}, {**RESULT, "pool": "A", "device": "a.b"}, {**RESULT, "shareID": SHARE},
        {**RESULT, "shareID": "x"}, {**RESULT, "shareID": SHARE.upper()}, {**RESULT, "bindingConditions": ["a"]}, {**RESULT, "adminAccess": False},
        {**RESULT, "consumedCapacity": {"a": "0.5Gi"}}, {**RESULT, "tolerations": [{"key": "a"}]},
    ):  # fmt: skip
        yield {"allocation": {"devices": {"results": [result]}}}
    yield {"allocation": {}}
    yield {
        "allocation": {
            "devices": {
                "config": [
                    {"source": "FromClass", "opaque": {"driver": "a", "parameters": {}}},
                    {"requests": ["x"]},
                    {"source": "x"},
                ]
            }
        }
    }
    yield {"allocation": {**allocation, "nodeSelector": {"nodeSelectorTerms": []}}}
    yield {"allocation": {"devices": {"results": 33 * [RESULT]}}}
    yield from (
        {"reservedFor": [consumer]},
        {"allocation": allocation, "reservedFor": [consumer]},
        {"allocation": allocation, "reservedFor": [consumer, consumer]},
    )
    yield from ({"allocation": allocation, "reservedFor": [{}]}, {"devices": [DEVICE]})
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Yes",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    told: Object
    for told in (
        {}, {"conditions": [condition]}, {"conditions": [condition, condition]}, {"conditions": [{}]}, {"conditions": [{**condition, "reason": "a b", "status": "x"}]},
        {"data": {"a": 1}}, {"data": [1]}, {"networkData": {"interfaceName": "eth0", "ips": ["10.0.0.1/24", "2001:db8::1/64"], "hardwareAddress": "aa"}},
        {"networkData": {"ips": ["10.0.0.1", "x", "10.0.0.1/024"]}}, {"networkData": {"interfaceName": 300 * "x"}}, {"shareID": SHARE},
    ):  # fmt: skip
        yield {"allocation": allocation, "devices": [{**DEVICE, **told}]}
    yield {"allocation": allocation, "devices": [DEVICE, DEVICE]}


def _told(name: str, status: Object) -> Iterator[Ask]:
    yield Ask("POST", CLAIMS, made("ResourceClaim", {"devices": {"requests": [{"name": "a", "exactly": GPU}]}}, name))
    yield Ask("PATCH", f"{CLAIMS}/{name}/status", {"status": status}, {"Content-Type": MERGE})


def _changes() -> Iterator[Ask]:
    """Of what does not change, and of what goes with what it belongs to."""
    spec: Object
    yield Ask("POST", CLAIMS, made("ResourceClaim", {"devices": {"requests": [{"name": "a", "exactly": GPU}]}}, "life"))
    merge = {"Content-Type": MERGE}
    for spec in ({"devices": {"requests": None}}, {"devices": {"requests": [{"name": "b", "exactly": GPU}]}}):
        yield Ask("PATCH", f"{CLAIMS}/life", {"spec": spec}, merge)
    path = f"{CLAIMS}/life/status"
    for status in (
        {"allocation": {"devices": {"results": [RESULT]}}, "devices": [DEVICE]},
        {"allocation": {"devices": {"results": [{**RESULT, "device": "e"}]}}},
        {"allocation": None},
        {
            "allocation": {"devices": {"results": [RESULT]}},
            "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
        },
        {"reservedFor": None},
    ):
        yield Ask("PATCH", path, {"status": status, "metadata": {"labels": {"a": "b"}}}, merge)
    yield Ask("GET", f"{CLAIMS}/life", headers={"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"})
    yield Ask(
        "POST",
        SLICES,
        made(
            "ResourceSlice",
            {"driver": "a", "nodeName": "n", "pool": POOL, **_device(taints=[{"key": "a", "effect": "None"}])},
            "life",
        ),
    )
    for spec in (
        {"pool": {"generation": 2}},
        {"driver": "b"},
        {"pool": {"name": "m"}},
        {"nodeName": "m"},
        {"nodeName": None, "allNodes": True},
        _device(taints=[{"key": "b", "effect": "NoSchedule"}]),
        {"devices": None},
    ):
        yield Ask("PATCH", f"{SLICES}/life", {"spec": spec}, merge)
    yield Ask(
        "GET",
        f"{SLICES}?fieldSelector=spec.driver%3Da,spec.nodeName%3Dn",
        headers={"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"},
    )


def _tellers() -> Iterator[Ask]:
    """To write a claim's status is not enough: who allocates binds claims, who tells of devices speaks for a driver."""
    rbac, roles = "rbac.authorization.k8s.io", "/apis/rbac.authorization.k8s.io/v1"
    yield Ask("POST", CLAIMS, made("ResourceClaim", {"devices": {"requests": [{"name": "a", "exactly": GPU}]}}, "told"))
    allowed = {"apiGroups": ["resource.k8s.io"], "verbs": ["*"]}
    for who, more in (("writer", ()), ("binder", ("resourceclaims/binding",)), ("driver", ("resourceclaims/driver",))):
        rules = [{**allowed, "resources": ["resourceclaims/status", *more]}]
        yield Ask("POST", f"{roles}/clusterroles", {"metadata": {"name": f"pairs-{who}"}, "rules": rules})
        binding = {
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": f"pairs-{who}"},
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": who}],
        }
        yield Ask("POST", f"{roles}/clusterrolebindings", {"metadata": {"name": f"pairs-{who}"}, **binding})
        headers = {"Content-Type": MERGE, "Impersonate-User": who}
        yield Ask("PATCH", f"{CLAIMS}/told/status", {"status": {}}, headers, until=200)
    asks = (
        ("writer", {"allocation": {"devices": {"results": [RESULT]}}, "devices": [DEVICE]}),
        ("driver", {"allocation": {"devices": {"results": [RESULT]}}}),
        ("binder", {"allocation": {"devices": {"results": [RESULT]}}}),
        ("binder", {"devices": [DEVICE]}),
        ("driver", {"devices": [DEVICE]}),
        ("writer", {"devices": None, "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}),
    )
    for who, status in asks:
        yield Ask(
            "PATCH", f"{CLAIMS}/told/status", {"status": status}, {"Content-Type": MERGE, "Impersonate-User": who}
        )


def _administrators() -> Iterator[Ask]:
    space = "/api/v1/namespaces"
    labels = {"resource.kubernetes.io/admin-access": "true"}
    yield Ask("POST", space, {"metadata": {"name": "administered", "labels": labels}})
    claim = made(
        "ResourceClaim", {"devices": {"requests": [{"name": "a", "exactly": {**GPU, "adminAccess": True}}]}}, "a"
    )
    claims = f"{ROOT}/namespaces/administered/resourceclaims"
    yield from (Ask("POST", claims, claim), Ask("POST", CLAIMS, claim))
    results = [{**RESULT, "adminAccess": True}]
    yield Ask(
        "PATCH",
        f"{claims}/a/status",
        {"status": {"allocation": {"devices": {"results": results}}}},
        {"Content-Type": MERGE},
    )
    template = made("ResourceClaimTemplate", {"spec": claim["spec"]}, "a")
    yield Ask("POST", TEMPLATES, template)


def _services() -> Iterator[Object]:
    yield from (
        {},
        {"group": ""},
        {"version": "V2"},
        {"groupPriorityMinimum": 20001, "versionPriority": -1},
        {"caBundle": "YQ=="},
    )
    yield from (
        {"insecureSkipTLSVerify": True},
        {"service": {}},
        {"service": {"name": "a", "namespace": "b", "port": 0}},
    )
    yield {"service": {"name": "a", "port": 70000}, "insecureSkipTLSVerify": True, "caBundle": "YQ=="}
