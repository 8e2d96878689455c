"""ResourceSlice: the devices of a driver with attributes, capacities and counters. Defaults and validation. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from shoal.kinds.core.scheduling import validate_node_selector
from shoal.kinds.resource.capacity_policy import validate_request_policy
from shoal.kinds.resource.names import (
    ItemCheck,
    name_of,
    validate_binding_conditions,
    validate_device_taint,
    validate_driver_name,
    validate_label_name,
    validate_list,
    validate_pool_name,
    validate_qualified_name,
    validate_set,
)
from shoal.kinds.validation.field import Object, ensure_map, invalid_causes, set_defaults, validate_immutable
from shoal.kinds.validation.resource_list import exact_quantity
from shoal.objects.errors import Cause, forbidden_field, invalid_value, required_value, too_long, too_many
from shoal.objects.names import is_dns1123_subdomain

MAX_DEVICES, MAX_ADVANCED_DEVICES = 128, 64
MAX_COUNTER_SETS, MAX_COUNTERS, MAX_CONSUMPTIONS = 8, 32, 2
MAX_ATTRIBUTES, MAX_TAINTS, MAX_VALUE_LENGTH = 32, 16, 64
_LIST_ATTRIBUTE_FIELDS = ("bools", "ints", "strings", "versions")
_NODE_FIELDS = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_ONE_NODE_FIELD = f"exactly one of {', '.join(f'`{field}`' for field in _NODE_FIELDS)} is required"
_ONE_DEVICE_NODE_FIELD = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true "
    "in the ResourceSlice spec"
)
_NO_DEVICE_NODE_FIELD = (
    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true "
    "in the ResourceSlice spec"
)
_NUMBER, _BUILD = r"(?:0|[1-9]\d*)", "[0-9a-zA-Z-]+"
_PRE = r"(?:0(?:\d*[a-zA-Z-][0-9a-zA-Z-]*)?|[1-9]\d*(?:[a-zA-Z-][0-9a-zA-Z-]*)?|[a-zA-Z-][0-9a-zA-Z-]*)"
_match_version = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_PRE}(\.{_PRE})*)?(\+{_BUILD}(\.{_BUILD})*)?", re.ASCII
).fullmatch


def default_resource_slice(obj: Object) -> None:
    spec = ensure_map(obj, "spec")
    set_defaults(ensure_map(spec, "pool"), generation=0, resourceSliceCount=0)
    for counters in spec.get("sharedCounters") or ():
        _default_quantities(counters.get("counters"))
    for device in spec.get("devices") or ():
        # Fields of feature gates that are off by default.
        device.pop("nodeAllocatableResourceMappings", None)
        for attribute in (device.get("attributes") or {}).values():
            for field in _LIST_ATTRIBUTE_FIELDS:
                attribute.pop(field, None)
        _default_quantities(device.get("capacity"))
        for capacity in (device.get("capacity") or {}).values():
            if capacity.get("requestPolicy") is not None:
                _default_request_policy(capacity["requestPolicy"])
        for counters in device.get("consumesCounters") or ():
            _default_quantities(counters.get("counters"))


def _default_quantities(quantities: Any) -> None:
    for one in (quantities or {}).values():
        one["value"] = "0" if one.get("value") is None else exact_quantity(one["value"])


def _default_request_policy(policy: Object) -> None:
    policy.setdefault("default", None)
    for holder, fields in ((policy, ("default",)), (policy.get("validRange") or {}, ("min", "max", "step"))):
        for field in fields:
            if holder.get(field) is not None:
                holder[field] = exact_quantity(holder[field])
    if policy.get("validValues"):
        policy["validValues"] = [exact_quantity(value) for value in policy["validValues"]]


def set_taint_times(obj: Object, now: str) -> None:
    """Sets timeAdded of taints without one to now."""
    for device in obj["spec"].get("devices") or ():
        for one in device.get("taints") or ():
            set_defaults(one, timeAdded=now)


def warn_resource_slice(obj: Object, old: Object | None) -> list[str]:
    driver = obj["spec"].get("driver") or ""
    if driver == driver.lower():
        return []
    return [f'spec.driver: driver names should be lowercase; "{driver}" contains uppercase characters']


def validate_resource_slice(obj: Object, old: Object | None) -> list[Cause]:
    spec, pool = obj["spec"], obj["spec"]["pool"]
    causes = validate_driver_name(spec.get("driver") or "", "spec.driver") + _validate_pool(pool)
    if old is not None:
        causes += validate_immutable(pool, old["spec"]["pool"], "spec.pool", "name")
        causes += validate_immutable(spec, old["spec"], "spec", "driver", "nodeName")
    causes += _validate_node_fields(spec)
    devices, counters = spec.get("devices"), spec.get("sharedCounters")
    if devices is not None and counters is not None:
        causes.append(invalid_value("spec", "", "only one of `sharedCounters` or `devices` is allowed"))
    before = {name_of(device): device for device in ((old or {}).get("spec") or {}).get("devices") or ()}
    causes += validate_set(
        devices,
        _max_devices(devices or ()),
        lambda device, path: _validate_device(
            device, before.get(name_of(device)), path, bool(spec.get(_NODE_FIELDS[3]))
        ),
        "spec.devices",
        name_of,
    )
    return causes + validate_set(counters, MAX_COUNTER_SETS, _validate_counter_set, "spec.sharedCounters", name_of)


def _max_devices(devices: Any) -> int:
    advanced = any(device.get("taints") or device.get("consumesCounters") for device in devices)
    return MAX_ADVANCED_DEVICES if advanced else MAX_DEVICES


def _validate_pool(pool: Object) -> list[Cause]:
    causes = validate_pool_name(pool.get("name") or "", "spec.pool.name")
    if pool["resourceSliceCount"] <= 0:
        path = "spec.pool.resourceSliceCount"
        causes.append(invalid_value(path, pool["resourceSliceCount"], "must be greater than zero"))
    if pool["generation"] < 0:
        detail = "must be greater than or equal to zero"
        causes.append(invalid_value("spec.pool.generation", pool["generation"], detail))
    return causes


def _validate_node_fields(spec: Object) -> list[Cause]:
    """Validates that exactly one of the four node fields of a slice is set."""
    causes, set_fields = _validate_node_choice(
        spec, "spec", "must be either unset or set to a non-empty string", _validate_single_term
    )
    each = spec.get("perDeviceNodeSelection")
    if each:
        set_fields.append("`perDeviceNodeSelection`")
    elif each is not None:
        causes.append(invalid_value("spec.perDeviceNodeSelection", each, "must be either unset or set to true"))
    if not set_fields:
        causes.append(required_value("spec", _ONE_NODE_FIELD))
    elif len(set_fields) > 1:
        printed = f"{{{', '.join(set_fields)}}}"
        causes.append(invalid_value("spec", printed, f"{_ONE_NODE_FIELD}, but multiple fields are set"))
    return causes


def _validate_single_term(selector: Object, path: str) -> list[Cause]:
    causes, terms = validate_node_selector(selector, path), selector.get("nodeSelectorTerms") or []
    if len(terms) != 1:
        detail = "must have exactly one node selector term"
        causes.append(invalid_value(f"{path}.nodeSelectorTerms", terms, detail))
    return causes


def _validate_node_choice(
    obj: Object, path: str, empty_detail: str, check_selector: ItemCheck = validate_node_selector
) -> tuple[list[Cause], list[str]]:
    """Validates the node fields of a slice or a device. Returns the causes and the fields that are set."""
    name, selector, all_nodes = (obj.get(field) for field in _NODE_FIELDS[:3])
    causes: list[Cause] = []
    set_fields = []
    if name:
        set_fields.append("`nodeName`")
        causes += invalid_causes(f"{path}.nodeName", name, is_dns1123_subdomain(name))
    elif name is not None:
        causes.append(invalid_value(f"{path}.nodeName", name, empty_detail))
    if selector is not None:
        set_fields.append("`nodeSelector`")
        causes += check_selector(selector, f"{path}.nodeSelector")
    if all_nodes:
        set_fields.append("`allNodes`")
    elif all_nodes is not None:
        causes.append(invalid_value(f"{path}.allNodes", all_nodes, "must be either unset or set to true"))
    return causes, set_fields


def _validate_counter_set(counters: Object, path: str) -> list[Cause]:
    name, field_path = name_of(counters), f"{path}.name"
    return (validate_label_name(name, field_path) if name else [required_value(field_path)]) + _validate_counters(
        counters, path
    )


def _validate_counters(holder: Object, path: str) -> list[Cause]:
    counters, field_path = holder.get("counters") or {}, f"{path}.counters"
    if not counters:
        return [required_value(field_path)]
    if len(counters) > MAX_COUNTERS:
        return [too_many(field_path, len(counters), MAX_COUNTERS)]
    return [cause for name in counters for cause in validate_label_name(name, field_path)]


def _validate_consumption(consumed: Object, path: str) -> list[Cause]:
    name, field_path = consumed.get("counterSet") or "", f"{path}.counterSet"
    return (validate_label_name(name, field_path) if name else [required_value(field_path)]) + _validate_counters(
        consumed, path
    )


def _validate_device(device: Object, old_device: Object | None, path: str, per_device_nodes: bool) -> list[Cause]:
    causes = validate_label_name(name_of(device), f"{path}.name")
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    if len(attributes) + len(capacity) > MAX_ATTRIBUTES:
        detail = f"the total number of attributes and capacities must not exceed {MAX_ATTRIBUTES}"
        causes.append(invalid_value(path, len(attributes) + len(capacity), detail))
    for name, attribute in attributes.items():
        causes += validate_qualified_name(name, f"{path}.attributes")
        causes += _validate_attribute(attribute, f"{path}.attributes[{_shortened_key(name)}]")
    for name, capacity_value in capacity.items():
        causes += validate_qualified_name(name, f"{path}.capacity")
        if capacity_value.get("requestPolicy") is not None:
            field_path = f"{path}.capacity[{_shortened_key(name)}].requestPolicy"
            if device.get("allowMultipleAllocations"):
                causes += validate_request_policy(capacity_value["requestPolicy"], capacity_value["value"], field_path)
            else:
                causes.append(forbidden_field(field_path, "allowMultipleAllocations must be true"))
    if old_device is None or old_device.get("taints") != device.get("taints"):
        causes += validate_list(device.get("taints"), MAX_TAINTS, validate_device_taint, f"{path}.taints")
    causes += validate_set(
        device.get("consumesCounters"),
        MAX_CONSUMPTIONS,
        _validate_consumption,
        f"{path}.consumesCounters",
        lambda consumed: consumed.get("counterSet") or "",
    )
    return [
        *causes,
        *_validate_device_node_fields(device, path, per_device_nodes),
        *validate_binding_conditions(device, path),
    ]


def _validate_device_node_fields(device: Object, path: str, per_device_nodes: bool) -> Iterator[Cause]:
    if not per_device_nodes:
        if any(device.get(field) is not None for field in _NODE_FIELDS[:3]):
            yield invalid_value(path, None, _NO_DEVICE_NODE_FIELD)
        return
    causes, set_fields = _validate_node_choice(device, path, "must not be empty")
    yield from causes
    if not set_fields:
        yield required_value(path, _ONE_DEVICE_NODE_FIELD)
    elif len(set_fields) > 1:
        yield invalid_value(path, f"{{{', '.join(set_fields)}}}", _ONE_DEVICE_NODE_FIELD)


def _validate_attribute(attribute: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    version = attribute.get("version")
    if len((attribute.get("string") or "").encode()) > MAX_VALUE_LENGTH:
        causes.append(too_long(f"{path}.string", MAX_VALUE_LENGTH))
    if version is not None and not _match_version(version):
        detail = "must be a string compatible with semver.org spec 2.0.0"
        causes.append(invalid_value(f"{path}.version", version, detail))
    if len((version or "").encode()) > MAX_VALUE_LENGTH:
        causes.append(too_long(f"{path}.version", MAX_VALUE_LENGTH))
    set_fields = [field for field in ("bool", "int", "string", "version") if attribute.get(field) is not None]
    if len(set_fields) != 1:
        causes.append(invalid_value(path, attribute if set_fields else "", "exactly one value must be specified"))
    return causes


def _shortened_key(key: str) -> str:
    """Returns a key as paths print it: too long keys lose their middle."""
    max_length = 63 + 1 + 32
    if len(key) <= max_length:
        return key
    rest = max_length - 3
    return f"{key[: (rest + 1) // 2]}...{key[-(rest // 2) :]}"
