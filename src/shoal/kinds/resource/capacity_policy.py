"""Validation of a capacity's requestPolicy: valid values, or a range with steps. Pure."""

from __future__ import annotations

from typing import Any

from shoal.kinds.resource.names import validate_set
from shoal.kinds.validation.field import Object
from shoal.kinds.validation.resource_list import quantity_of
from shoal.objects.errors import Cause, forbidden_field, invalid_value, required_value
from shoal.objects.quantity import NANO, Quantity

MAX_VALUES = 10


def validate_request_policy(policy: Object, capacity: str, path: str) -> list[Cause]:
    values, limits, default = policy.get("validValues") or [], policy.get("validRange"), policy.get("default")
    if values and limits is not None:
        detail = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        return [forbidden_field(path, detail)]
    if not values and limits is None:
        return []
    if default is None:
        field = "validValues" if values else "validRange"
        return [required_value(f"{path}.default", f"required when {field} is defined")]
    if values:
        return _validate_values(values, default, capacity, f"{path}.validValues")
    return _validate_range(limits, default, capacity, f"{path}.validRange")


def _validate_values(values: list[str], default: str, capacity: str, path: str) -> list[Cause]:
    causes = [
        invalid_value(f"{path}[{i}]", values[i], "values must be sorted in ascending order")
        for i in range(1, len(values))
        if quantity_of(values[i - 1]) > quantity_of(values[i])
    ]

    def fits(value: Any, field_path: str) -> list[Cause]:
        if quantity_of(value) <= quantity_of(capacity):
            return []
        return [invalid_value(field_path, value, f"option is larger than capacity value: {capacity}")]

    causes += validate_set(values, MAX_VALUES, fits, path, _rounded_up)
    # A list that is too long is not searched.
    if len(values) > MAX_VALUES or not any(quantity_of(value) == quantity_of(default) for value in values):
        causes.append(invalid_value(path, default, "default value is not valid according to the requestPolicy"))
    return causes


def _validate_range(limits: Any, default: str, capacity: str, path: str) -> list[Cause]:
    low, high, step = limits.get("min"), limits.get("max"), limits.get("step")
    if low is None:
        return [required_value(f"{path}.min", "required when validRange is defined")]
    causes = []
    if quantity_of(low) > quantity_of(capacity):
        causes.append(invalid_value(f"{path}.min", low, f"min is larger than capacity value: {capacity}"))
    if quantity_of(default) < quantity_of(low):
        causes.append(invalid_value(f"{path}.min", default, f"default is less than min: {low}"))
    if high is not None:
        if quantity_of(low) > quantity_of(high):
            causes.append(invalid_value(f"{path}.max", low, f"min is larger than max: {high}"))
        if quantity_of(high) > quantity_of(capacity):
            causes.append(invalid_value(f"{path}.max", high, f"max is larger than capacity value: {capacity}"))
        if quantity_of(default) > quantity_of(high):
            causes.append(invalid_value(f"{path}.max", default, f"default is more than max: {high}"))
    if step is not None:
        causes += _validate_steps(low, step, [default] if high is None else [default, high], capacity, f"{path}.step")
    return causes


def _validate_steps(low: str, step: str, values: list[str], capacity: str, path: str) -> list[Cause]:
    causes = []
    first_step = Quantity(quantity_of(low).nano + quantity_of(step).nano, quantity_of(low).format)
    if first_step > quantity_of(capacity):
        causes.append(invalid_value(path, step, f"one step {first_step} is larger than capacity value: {capacity}"))
    for value in values:
        # Upstream divides by zero for a zero step.
        if not _rounded_up(step) or (_rounded_up(value) - _rounded_up(low)) % _rounded_up(step):
            detail = f"value is not a multiple of a given step ({step}) from ({low})"
            causes.append(invalid_value(path, value, detail))
    return causes


def _rounded_up(value: Any) -> int:
    """Rounds up to whole units, as upstream."""
    return -(-quantity_of(value).nano // NANO)
