"""ResourceSlice: the devices of a driver with attributes, capacities and counters. Defaults and validation. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from shoal.kinds.checks import Object, fill, immutable, said, section
from shoal.kinds.pod_scheduling import validate_node_selector
from shoal.kinds.resource_names import (
    Check,
    checked,
    condition_types,
    distinct,
    driver_name,
    label_name,
    name_of,
    pool_name,
    qualified_name,
    taint,
)
from shoal.kinds.resource_policies import validate_policy
from shoal.kinds.resources import canonical_alone
from shoal.objects.errors import Cause, forbidden_field, invalid_value, required, too_long, too_many
from shoal.objects.names import is_dns1123_subdomain

MOST_DEVICES, MOST_ADVANCED_DEVICES = 128, 64
MOST_COUNTER_SETS, MOST_COUNTERS, MOST_CONSUMPTIONS = 8, 32, 2
MOST_ATTRIBUTES, MOST_TAINTS, VALUE_LENGTH = 32, 16, 64
_LISTS = ("bools", "ints", "strings", "versions")
_WHERE = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_ONE_PLACE = f"exactly one of {', '.join(f'`{field}`' for field in _WHERE)} is required"
_ONE_DEVICE_PLACE = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true "
    "in the ResourceSlice spec"
)
_NO_DEVICE_PLACE = (
    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true "
    "in the ResourceSlice spec"
)
_NUMBER, _PRE, _BUILD = r"(0|[1-9]\d*)", r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)", "[0-9a-zA-Z-]+"
_match_version = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_PRE}(\.{_PRE})*)?(\+{_BUILD}(\.{_BUILD})*)?", re.ASCII
).fullmatch


def default_slice(obj: Object) -> None:
    spec = section(obj, "spec")
    fill(section(spec, "pool"), generation=0, resourceSliceCount=0)
    for counters in spec.get("sharedCounters") or ():
        _default_amounts(counters.get("counters"))
    for device in spec.get("devices") or ():
        # Fields of feature gates that are off by default.
        device.pop("nodeAllocatableResourceMappings", None)
        for attribute in (device.get("attributes") or {}).values():
            for field in _LISTS:
                attribute.pop(field, None)
        _default_amounts(device.get("capacity"))
        for capacity in (device.get("capacity") or {}).values():
            if capacity.get("requestPolicy") is not None:
                _default_policy(capacity["requestPolicy"])
        for counters in device.get("consumesCounters") or ():
            _default_amounts(counters.get("counters"))


def _default_amounts(held: Any) -> None:
    for one in (held or {}).values():
        one["value"] = "0" if one.get("value") is None else canonical_alone(one["value"])


def _default_policy(policy: Object) -> None:
    policy.setdefault("default", None)
    for holder, fields in ((policy, ("default",)), (policy.get("validRange") or {}, ("min", "max", "step"))):
        for field in fields:
            if holder.get(field) is not None:
                holder[field] = canonical_alone(holder[field])
    if policy.get("validValues"):
        policy["validValues"] = [canonical_alone(value) for value in policy["validValues"]]


def date_taints(obj: Object, now: str) -> None:
    """Sets timeAdded of taints without one to now."""
    for device in obj["spec"].get("devices") or ():
        for one in device.get("taints") or ():
            fill(one, timeAdded=now)


def warn_slice(obj: Object, old: Object | None) -> list[str]:
    driver = obj["spec"].get("driver") or ""
    if driver == driver.lower():
        return []
    return [f'spec.driver: driver names should be lowercase; "{driver}" contains uppercase characters']


def validate_slice(obj: Object, old: Object | None) -> list[Cause]:
    spec, pool = obj["spec"], obj["spec"]["pool"]
    causes = driver_name(spec.get("driver") or "", "spec.driver") + _pool(pool)
    if old is not None:
        causes += immutable(pool, old["spec"]["pool"], "spec.pool", "name")
        causes += immutable(spec, old["spec"], "spec", "driver", "nodeName")
    causes += _places(spec)
    devices, counters = spec.get("devices"), spec.get("sharedCounters")
    if devices is not None and counters is not None:
        causes.append(invalid_value("spec", "", "only one of `sharedCounters` or `devices` is allowed"))
    before = {name_of(device): device for device in ((old or {}).get("spec") or {}).get("devices") or ()}
    causes += distinct(
        devices,
        _most_devices(devices or ()),
        lambda device, path: _device(device, before.get(name_of(device)), path, bool(spec.get(_WHERE[3]))),
        "spec.devices",
        name_of,
    )
    return causes + distinct(counters, MOST_COUNTER_SETS, _counter_set, "spec.sharedCounters", name_of)


def _most_devices(devices: Any) -> int:
    advanced = any(device.get("taints") or device.get("consumesCounters") for device in devices)
    return MOST_ADVANCED_DEVICES if advanced else MOST_DEVICES


def _pool(pool: Object) -> list[Cause]:
    causes = pool_name(pool.get("name") or "", "spec.pool.name")
    if pool["resourceSliceCount"] <= 0:
        path = "spec.pool.resourceSliceCount"
        causes.append(invalid_value(path, pool["resourceSliceCount"], "must be greater than zero"))
    if pool["generation"] < 0:
        told = "must be greater than or equal to zero"
        causes.append(invalid_value("spec.pool.generation", pool["generation"], told))
    return causes


def _places(spec: Object) -> list[Cause]:
    """Validates that exactly one of the four node fields of a slice is set."""
    causes, given = _where(spec, "spec", "must be either unset or set to a non-empty string", _one_term)
    each = spec.get("perDeviceNodeSelection")
    if each:
        given.append("`perDeviceNodeSelection`")
    elif each is not None:
        causes.append(invalid_value("spec.perDeviceNodeSelection", each, "must be either unset or set to true"))
    if not given:
        causes.append(required("spec", _ONE_PLACE))
    elif len(given) > 1:
        shown = f"{{{', '.join(given)}}}"
        causes.append(invalid_value("spec", shown, f"{_ONE_PLACE}, but multiple fields are set"))
    return causes


def _one_term(selector: Object, path: str) -> list[Cause]:
    causes, terms = validate_node_selector(selector, path), selector.get("nodeSelectorTerms") or []
    if len(terms) != 1:
        told = "must have exactly one node selector term"
        causes.append(invalid_value(f"{path}.nodeSelectorTerms", terms, told))
    return causes


def _where(
    obj: Object, path: str, empty: str, check_selector: Check = validate_node_selector
) -> tuple[list[Cause], list[str]]:
    """Validates the node fields of a slice or a device. Returns the causes and the fields that are set."""
    name, selector, everywhere = (obj.get(field) for field in _WHERE[:3])
    causes: list[Cause] = []
    given = []
    if name:
        given.append("`nodeName`")
        causes += said(f"{path}.nodeName", name, is_dns1123_subdomain(name))
    elif name is not None:
        causes.append(invalid_value(f"{path}.nodeName", name, empty))
    if selector is not None:
        given.append("`nodeSelector`")
        causes += check_selector(selector, f"{path}.nodeSelector")
    if everywhere:
        given.append("`allNodes`")
    elif everywhere is not None:
        causes.append(invalid_value(f"{path}.allNodes", everywhere, "must be either unset or set to true"))
    return causes, given


def _counter_set(counters: Object, path: str) -> list[Cause]:
    name, where = name_of(counters), f"{path}.name"
    return (label_name(name, where) if name else [required(where)]) + _counters(counters, path)


def _counters(holder: Object, path: str) -> list[Cause]:
    counters, where = holder.get("counters") or {}, f"{path}.counters"
    if not counters:
        return [required(where)]
    if len(counters) > MOST_COUNTERS:
        return [too_many(where, len(counters), MOST_COUNTERS)]
    return [cause for name in counters for cause in label_name(name, where)]


def _consumption(consumed: Object, path: str) -> list[Cause]:
    name, where = consumed.get("counterSet") or "", f"{path}.counterSet"
    return (label_name(name, where) if name else [required(where)]) + _counters(consumed, path)


def _device(device: Object, before: Object | None, path: str, placed: bool) -> list[Cause]:
    causes = label_name(name_of(device), f"{path}.name")
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    if len(attributes) + len(capacity) > MOST_ATTRIBUTES:
        told = f"the total number of attributes and capacities must not exceed {MOST_ATTRIBUTES}"
        causes.append(invalid_value(path, len(attributes) + len(capacity), told))
    for name, attribute in attributes.items():
        causes += qualified_name(name, f"{path}.attributes")
        causes += _attribute(attribute, f"{path}.attributes[{_short(name)}]")
    for name, held in capacity.items():
        causes += qualified_name(name, f"{path}.capacity")
        if held.get("requestPolicy") is not None:
            where = f"{path}.capacity[{_short(name)}].requestPolicy"
            if device.get("allowMultipleAllocations"):
                causes += validate_policy(held["requestPolicy"], held["value"], where)
            else:
                causes.append(forbidden_field(where, "allowMultipleAllocations must be true"))
    if before is None or before.get("taints") != device.get("taints"):
        causes += checked(device.get("taints"), MOST_TAINTS, taint, f"{path}.taints")
    causes += distinct(
        device.get("consumesCounters"),
        MOST_CONSUMPTIONS,
        _consumption,
        f"{path}.consumesCounters",
        lambda consumed: consumed.get("counterSet") or "",
    )
    return [*causes, *_device_place(device, path, placed), *condition_types(device, path)]


def _device_place(device: Object, path: str, placed: bool) -> Iterator[Cause]:
    if not placed:
        if any(device.get(field) is not None for field in _WHERE[:3]):
            yield invalid_value(path, None, _NO_DEVICE_PLACE)
        return
    causes, given = _where(device, path, "must not be empty")
    yield from causes
    if not given:
        yield required(path, _ONE_DEVICE_PLACE)
    elif len(given) > 1:
        yield invalid_value(path, f"{{{', '.join(given)}}}", _ONE_DEVICE_PLACE)


def _attribute(attribute: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    version = attribute.get("version")
    if len((attribute.get("string") or "").encode()) > VALUE_LENGTH:
        causes.append(too_long(f"{path}.string", VALUE_LENGTH))
    if version is not None and not _match_version(version):
        told = "must be a string compatible with semver.org spec 2.0.0"
        causes.append(invalid_value(f"{path}.version", version, told))
    if len((version or "").encode()) > VALUE_LENGTH:
        causes.append(too_long(f"{path}.version", VALUE_LENGTH))
    given = [field for field in ("bool", "int", "string", "version") if attribute.get(field) is not None]
    if len(given) != 1:
        causes.append(invalid_value(path, attribute if given else "", "exactly one value must be specified"))
    return causes


def _short(key: str) -> str:
    """Returns a key as paths print it: too long keys lose their middle."""
    most = 63 + 1 + 32
    if len(key) <= most:
        return key
    rest = most - 3
    return f"{key[: (rest + 1) // 2]}...{key[-(rest // 2) :]}"
