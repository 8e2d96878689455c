"""The status of a ResourceClaim: allocation, consumers, and device status of drivers. Validation. Pure."""

from __future__ import annotations

import re
from typing import Any

from shoal.kinds.checks import Object, immutable, one_of, parse_cidr, parse_ip, said
from shoal.kinds.pod_scheduling import validate_node_selector
from shoal.kinds.resource_names import (
    checked,
    condition_types,
    distinct,
    driver_name,
    label_name,
    pool_name,
    raw_object,
    unique_id,
)
from shoal.kinds.resource_requests import MOST, Names, claim_configuration, names_of, request_reference
from shoal.objects.errors import Cause, duplicate, forbidden_field, invalid_value, required, too_long, too_many
from shoal.objects.names import is_qualified_name

MOST_CONSUMERS, MOST_CONDITIONS, MOST_ADDRESSES = 256, 8, 16
DATA_BYTES, INTERFACE_BYTES, HARDWARE_BYTES = 10 * 1024, 256, 128
REASON_BYTES, MESSAGE_BYTES = 1024, 32 * 1024
_REASON = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_match_reason = re.compile(_REASON).fullmatch
_REASON_SAID = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or "
    f"'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '{_REASON}')"
)
_UNLIMITED = 1 << 62


def drop_given_back(new: Object, old: Object) -> None:
    """Removes the device status of devices that are no longer allocated."""
    status = new.get("status") or {}
    gone = _allocated(old.get("status") or {}) - _allocated(status)
    if gone and status.get("devices"):
        status["devices"] = [device for device in status["devices"] if device_id(device) not in gone]
        if not status["devices"]:
            del status["devices"]


def validate_status(obj: Object, old: Object) -> list[Cause]:
    status, before = obj.get("status") or {}, old.get("status") or {}
    allocation, consumers = status.get("allocation"), status.get("reservedFor") or []
    causes = distinct(consumers, MOST_CONSUMERS, _consumer, "status.reservedFor", lambda one: one.get("uid") or "")
    allocated = _allocated(status)
    causes += distinct(
        status.get("devices"),
        _UNLIMITED,
        lambda device, path: _device(device, path, allocated),
        "status.devices",
        device_id,
        _shown_device,
    )
    if consumers and allocation is None:
        told = "may not be specified when `allocated` is not set"
        causes.append(forbidden_field("status.reservedFor", told))
    elif obj["metadata"].get("deletionTimestamp") and any(
        one not in (before.get("reservedFor") or ()) for one in consumers
    ):
        told = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        causes.append(forbidden_field("status.reservedFor", told))
    if allocation is not None and before.get("allocation") is not None:
        causes += immutable(status, before, "status", "allocation")
    elif allocation is not None:
        causes += _allocation(allocation, names_of(obj["spec"]["devices"]))
    return causes


def _allocated(status: Object) -> set[tuple[str, ...]]:
    devices = (status.get("allocation") or {}).get("devices") or {}
    return {device_id(result) for result in devices.get("results") or ()}


def device_id(device: Object) -> tuple[str, ...]:
    """Returns the identity of a device: driver, pool, device and share id."""
    return tuple(device.get(field) or "" for field in ("driver", "pool", "device", "shareID"))


def _shown_device(identity: Any) -> Object:
    return dict(zip(("Driver", "Pool", "Device", "ShareID"), identity, strict=True))


def _consumer(consumer: Object, path: str) -> list[Cause]:
    return [required(f"{path}.{field}") for field in ("resource", "name", "uid") if not consumer.get(field)]


def _allocation(allocation: Object, names: Names) -> list[Cause]:
    path, devices = "status.allocation.devices", allocation.get("devices") or {}
    causes = checked(
        devices.get("results"), MOST, lambda result, where: _result(result, where, names), f"{path}.results"
    )
    causes += checked(
        devices.get("config"), 2 * MOST, lambda config, where: _configuration(config, where, names), f"{path}.config"
    )
    if allocation.get("nodeSelector") is not None:
        causes += validate_node_selector(allocation["nodeSelector"], "status.allocation.nodeSelector")
    return causes


def _result(result: Object, path: str, names: Names) -> list[Cause]:
    causes = request_reference(result.get("request") or "", f"{path}.request", names)
    causes += _place(result, path) + condition_types(result, path)
    return causes + _share(result, path)


def _place(device: Object, path: str) -> list[Cause]:
    causes = driver_name(device.get("driver") or "", f"{path}.driver")
    causes += pool_name(device.get("pool") or "", f"{path}.pool")
    return causes + label_name(device.get("device") or "", f"{path}.device")


def _share(device: Object, path: str) -> list[Cause]:
    return [] if device.get("shareID") is None else unique_id(device["shareID"], f"{path}.shareID")


def _configuration(config: Object, path: str, names: Names) -> list[Cause]:
    source = config.get("source") or ""
    where = f"{path}.source"
    causes = one_of(source, where, "FromClaim", "FromClass") if source else [required(where)]
    return causes + claim_configuration(config, path, names)


def _device(device: Object, path: str, allocated: set[tuple[str, ...]]) -> list[Cause]:
    causes = _place(device, path) + _share(device, path)
    identity = device_id(device)
    if identity not in allocated:
        causes.append(invalid_value(path, _shown_device(identity), "must be an allocated device in the claim"))
    conditions = device.get("conditions") or []
    if len(conditions) > MOST_CONDITIONS:
        causes.append(too_many(f"{path}.conditions", len(conditions), MOST_CONDITIONS))
    causes += _conditions(conditions, f"{path}.conditions")
    if device.get("data") is not None:
        causes += raw_object(device["data"], f"{path}.data", DATA_BYTES)
    return causes + _network(device.get("networkData") or {}, f"{path}.networkData")


def _conditions(conditions: list[Object], path: str) -> list[Cause]:
    causes: list[Cause] = []
    kinds = [condition.get("type") or "" for condition in conditions]
    for i, (kind, condition) in enumerate(zip(kinds, conditions, strict=True)):
        here, reason = f"{path}[{i}]", condition.get("reason") or ""
        if kind in kinds[:i]:
            causes.append(duplicate(f"{here}.type", kind))
        causes += said(f"{here}.type", kind, is_qualified_name(kind))
        causes += one_of(condition.get("status") or "", f"{here}.status", "False", "True", "Unknown")
        seen = condition.get("observedGeneration") or 0
        if seen < 0:
            causes.append(invalid_value(f"{here}.observedGeneration", seen, "must be greater than or equal to zero"))
        if not condition.get("lastTransitionTime"):
            causes.append(required(f"{here}.lastTransitionTime"))
        if not reason:
            causes.append(required(f"{here}.reason"))
        elif not _match_reason(reason):
            causes.append(invalid_value(f"{here}.reason", reason, _REASON_SAID))
        for field, longest in (("reason", REASON_BYTES), ("message", MESSAGE_BYTES)):
            if len((condition.get(field) or "").encode()) > longest:
                causes.append(too_long(f"{here}.{field}", longest))
    return causes


def _network(data: Object, path: str) -> list[Cause]:
    causes = [
        too_long(f"{path}.{field}", longest)
        for field, longest in (("interfaceName", INTERFACE_BYTES), ("hardwareAddress", HARDWARE_BYTES))
        if len((data.get(field) or "").encode()) > longest
    ]
    return causes + distinct(data.get("ips"), MOST_ADDRESSES, _address, f"{path}.ips", str)


def _address(text: str, path: str) -> list[Cause]:
    address, _, size = text.partition("/")
    found, network = parse_ip(address), parse_cidr(text)
    if found is None or network is None:
        told = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
        return [invalid_value(path, text, told)]
    canonical = f"{found}/{int(size)}"
    return [] if text == canonical else [invalid_value(path, text, f'must be in canonical form ("{canonical}")')]
