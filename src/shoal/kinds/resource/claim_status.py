"""The status of a ResourceClaim: allocation, consumers, and device status of drivers. Validation. Pure."""

from __future__ import annotations

import re
from typing import Any

from shoal.kinds.core.scheduling import validate_node_selector
from shoal.kinds.resource.names import (
    validate_binding_conditions,
    validate_driver_name,
    validate_label_name,
    validate_list,
    validate_pool_name,
    validate_raw_object,
    validate_set,
    validate_uid,
)
from shoal.kinds.resource.requests import (
    MAX_DEVICE_ITEMS,
    RequestNames,
    request_names,
    validate_claim_configuration,
    validate_request_reference,
)
from shoal.kinds.validation.field import (
    Object,
    invalid_causes,
    parse_cidr,
    parse_ip,
    repeated_positions,
    validate_enum,
    validate_immutable,
)
from shoal.objects.errors import Cause, duplicate, forbidden_field, invalid_value, required_value, too_long, too_many
from shoal.objects.names import is_qualified_name

MAX_CONSUMERS, MAX_CONDITIONS, MAX_ADDRESSES = 256, 8, 16
MAX_DATA_BYTES, MAX_INTERFACE_BYTES, MAX_HARDWARE_ADDRESS_BYTES = 10 * 1024, 256, 128
MAX_REASON_BYTES, MAX_MESSAGE_BYTES = 1024, 32 * 1024
_REASON = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_match_reason = re.compile("[A-Za-z][A-Za-z0-9_]*(?:[,:]+[A-Za-z0-9_]+)*").fullmatch
_REASON_MESSAGE = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or "
    f"'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '{_REASON}')"
)
_UNLIMITED = 1 << 62


def drop_deallocated_device_status(new: Object, old: Object) -> None:
    """Removes the device status of devices that are no longer allocated."""
    status = new.get("status") or {}
    deallocated = _allocated_device_ids(old.get("status") or {}) - _allocated_device_ids(status)
    if deallocated and status.get("devices"):
        status["devices"] = [device for device in status["devices"] if device_id(device) not in deallocated]
        if not status["devices"]:
            del status["devices"]


def validate_claim_status(obj: Object, old: Object) -> list[Cause]:
    status, before = obj.get("status") or {}, old.get("status") or {}
    allocation, consumers = status.get("allocation"), status.get("reservedFor") or []
    causes = validate_set(
        consumers, MAX_CONSUMERS, _validate_consumer, "status.reservedFor", lambda one: one.get("uid") or ""
    )
    allocated = _allocated_device_ids(status)
    causes += validate_set(
        status.get("devices"),
        _UNLIMITED,
        lambda device, path: _validate_device(device, path, allocated),
        "status.devices",
        device_id,
        _printed_device_id,
    )
    if consumers and allocation is None:
        detail = "may not be specified when `allocated` is not set"
        causes.append(forbidden_field("status.reservedFor", detail))
    elif obj["metadata"].get("deletionTimestamp") and any(
        one not in (before.get("reservedFor") or ()) for one in consumers
    ):
        detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        causes.append(forbidden_field("status.reservedFor", detail))
    if allocation is not None and before.get("allocation") is not None:
        causes += validate_immutable(status, before, "status", "allocation")
    elif allocation is not None:
        causes += _validate_allocation(allocation, request_names(obj["spec"]["devices"]))
    return causes


def _allocated_device_ids(status: Object) -> set[tuple[str, ...]]:
    devices = (status.get("allocation") or {}).get("devices") or {}
    return {device_id(result) for result in devices.get("results") or ()}


def device_id(device: Object) -> tuple[str, ...]:
    """Returns the identity of a device: driver, pool, device and share id."""
    return tuple(device.get(field) or "" for field in ("driver", "pool", "device", "shareID"))


def _printed_device_id(identity: Any) -> Object:
    return dict(zip(("Driver", "Pool", "Device", "ShareID"), identity, strict=True))


def _validate_consumer(consumer: Object, path: str) -> list[Cause]:
    return [required_value(f"{path}.{field}") for field in ("resource", "name", "uid") if not consumer.get(field)]


def _validate_allocation(allocation: Object, names: RequestNames) -> list[Cause]:
    path, devices = "status.allocation.devices", allocation.get("devices") or {}
    causes = validate_list(
        devices.get("results"),
        MAX_DEVICE_ITEMS,
        lambda result, where: _validate_result(result, where, names),
        f"{path}.results",
    )
    causes += validate_list(
        devices.get("config"),
        2 * MAX_DEVICE_ITEMS,
        lambda config, where: _validate_configuration(config, where, names),
        f"{path}.config",
    )
    if allocation.get("nodeSelector") is not None:
        causes += validate_node_selector(allocation["nodeSelector"], "status.allocation.nodeSelector")
    return causes


def _validate_result(result: Object, path: str, names: RequestNames) -> list[Cause]:
    causes = validate_request_reference(result.get("request") or "", f"{path}.request", names)
    causes += _validate_device_reference(result, path) + validate_binding_conditions(result, path)
    return causes + _validate_share_id(result, path)


def _validate_device_reference(device: Object, path: str) -> list[Cause]:
    causes = validate_driver_name(device.get("driver") or "", f"{path}.driver")
    causes += validate_pool_name(device.get("pool") or "", f"{path}.pool")
    return causes + validate_label_name(device.get("device") or "", f"{path}.device")


def _validate_share_id(device: Object, path: str) -> list[Cause]:
    return [] if device.get("shareID") is None else validate_uid(device["shareID"], f"{path}.shareID")


def _validate_configuration(config: Object, path: str, names: RequestNames) -> list[Cause]:
    source = config.get("source") or ""
    field_path = f"{path}.source"
    causes = validate_enum(source, field_path, "FromClaim", "FromClass") if source else [required_value(field_path)]
    return causes + validate_claim_configuration(config, path, names)


def _validate_device(device: Object, path: str, allocated: set[tuple[str, ...]]) -> list[Cause]:
    causes = _validate_device_reference(device, path) + _validate_share_id(device, path)
    identity = device_id(device)
    if identity not in allocated:
        causes.append(invalid_value(path, _printed_device_id(identity), "must be an allocated device in the claim"))
    conditions = device.get("conditions") or []
    if len(conditions) > MAX_CONDITIONS:
        causes.append(too_many(f"{path}.conditions", len(conditions), MAX_CONDITIONS))
    causes += _validate_conditions(conditions, f"{path}.conditions")
    if device.get("data") is not None:
        causes += validate_raw_object(device["data"], f"{path}.data", MAX_DATA_BYTES)
    return causes + _validate_network(device.get("networkData") or {}, f"{path}.networkData")


def _validate_conditions(conditions: list[Object], path: str) -> list[Cause]:
    causes: list[Cause] = []
    kinds = [condition.get("type") or "" for condition in conditions]
    repeated = set(repeated_positions(kinds))
    for i, (kind, condition) in enumerate(zip(kinds, conditions, strict=True)):
        item_path, reason = f"{path}[{i}]", condition.get("reason") or ""
        if i in repeated:
            causes.append(duplicate(f"{item_path}.type", kind))
        causes += invalid_causes(f"{item_path}.type", kind, is_qualified_name(kind))
        causes += validate_enum(condition.get("status") or "", f"{item_path}.status", "False", "True", "Unknown")
        seen = condition.get("observedGeneration") or 0
        if seen < 0:
            causes.append(
                invalid_value(f"{item_path}.observedGeneration", seen, "must be greater than or equal to zero")
            )
        if not condition.get("lastTransitionTime"):
            causes.append(required_value(f"{item_path}.lastTransitionTime"))
        if not reason:
            causes.append(required_value(f"{item_path}.reason"))
        elif not _match_reason(reason):
            causes.append(invalid_value(f"{item_path}.reason", reason, _REASON_MESSAGE))
        for field, longest in (("reason", MAX_REASON_BYTES), ("message", MAX_MESSAGE_BYTES)):
            if len((condition.get(field) or "").encode()) > longest:
                causes.append(too_long(f"{item_path}.{field}", longest))
    return causes


def _validate_network(data: Object, path: str) -> list[Cause]:
    causes = [
        too_long(f"{path}.{field}", longest)
        for field, longest in (("interfaceName", MAX_INTERFACE_BYTES), ("hardwareAddress", MAX_HARDWARE_ADDRESS_BYTES))
        if len((data.get(field) or "").encode()) > longest
    ]
    return causes + validate_set(data.get("ips"), MAX_ADDRESSES, _validate_address, f"{path}.ips", str)


def _validate_address(text: str, path: str) -> list[Cause]:
    address, _, size = text.partition("/")
    parsed, network = parse_ip(address), parse_cidr(text)
    if parsed is None or network is None:
        detail = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
        return [invalid_value(path, text, detail)]
    canonical = f"{parsed}/{int(size)}"
    return [] if text == canonical else [invalid_value(path, text, f'must be in canonical form ("{canonical}")')]
