"""Validation of a capacity's requestPolicy: valid values, or a range with steps. Pure."""

from __future__ import annotations

from typing import Any

from shoal.kinds.checks import Object
from shoal.kinds.resource_names import distinct
from shoal.kinds.resources import amount
from shoal.objects.errors import Cause, forbidden_field, invalid_value, required
from shoal.objects.quantity import NANO, Quantity

MOST_VALUES = 10


def validate_policy(policy: Object, capacity: str, path: str) -> list[Cause]:
    values, limits, default = policy.get("validValues") or [], policy.get("validRange"), policy.get("default")
    if values and limits is not None:
        told = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        return [forbidden_field(path, told)]
    if not values and limits is None:
        return []
    if default is None:
        field = "validValues" if values else "validRange"
        return [required(f"{path}.default", f"required when {field} is defined")]
    if values:
        return _values(values, default, capacity, f"{path}.validValues")
    return _range(limits, default, capacity, f"{path}.validRange")


def _values(values: list[str], default: str, capacity: str, path: str) -> list[Cause]:
    causes = [
        invalid_value(f"{path}[{i}]", values[i], "values must be sorted in ascending order")
        for i in range(1, len(values))
        if amount(values[i - 1]) > amount(values[i])
    ]

    def fits(value: Any, where: str) -> list[Cause]:
        if amount(value) <= amount(capacity):
            return []
        return [invalid_value(where, value, f"option is larger than capacity value: {capacity}")]

    causes += distinct(values, MOST_VALUES, fits, path, _whole)
    # A list that is too long is not searched.
    if len(values) > MOST_VALUES or not any(amount(value) == amount(default) for value in values):
        causes.append(invalid_value(path, default, "default value is not valid according to the requestPolicy"))
    return causes


def _range(limits: Any, default: str, capacity: str, path: str) -> list[Cause]:
    low, high, step = limits.get("min"), limits.get("max"), limits.get("step")
    if low is None:
        return [required(f"{path}.min", "required when validRange is defined")]
    causes = []
    if amount(low) > amount(capacity):
        causes.append(invalid_value(f"{path}.min", low, f"min is larger than capacity value: {capacity}"))
    if amount(default) < amount(low):
        causes.append(invalid_value(f"{path}.min", default, f"default is less than min: {low}"))
    if high is not None:
        if amount(low) > amount(high):
            causes.append(invalid_value(f"{path}.max", low, f"min is larger than max: {high}"))
        if amount(high) > amount(capacity):
            causes.append(invalid_value(f"{path}.max", high, f"max is larger than capacity value: {capacity}"))
        if amount(default) > amount(high):
            causes.append(invalid_value(f"{path}.max", default, f"default is more than max: {high}"))
    if step is not None:
        causes += _steps(low, step, [default] if high is None else [default, high], capacity, f"{path}.step")
    return causes


def _steps(low: str, step: str, values: list[str], capacity: str, path: str) -> list[Cause]:
    causes = []
    once = Quantity(amount(low).nano + amount(step).nano, amount(low).format)
    if once > amount(capacity):
        causes.append(invalid_value(path, step, f"one step {once} is larger than capacity value: {capacity}"))
    for value in values:
        # Upstream divides by zero for a zero step.
        if not _whole(step) or (_whole(value) - _whole(low)) % _whole(step):
            told = f"value is not a multiple of a given step ({step}) from ({low})"
            causes.append(invalid_value(path, value, told))
    return causes


def _whole(value: Any) -> int:
    """Rounds up to whole units, as upstream."""
    return -(-amount(value).nano // NANO)
