"""Builds the status of a Placement: validity, number of placed objects, and objects that follow another Placement.
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.kinds.workload.placement import SUPERSEDED, VALID
from shoal.objects.conditions import set_condition
from shoal.objects.errors import StatusError
from shoal.placement.policy import PlacementRule, parse_policy
from shoal.placement.splitter.placeable import KindNotPlaceable

Object = dict[str, Any]
ConditionFields = tuple[str, str, str]
"""Status, reason and message of a condition."""
MAX_NAMED = 5
"""The most objects that are named in a message."""


@dataclass(frozen=True, slots=True)
class PlacementMatch:
    """The Placements that select one root, the applied one first, and why it cannot be applied."""

    names: tuple[str, ...] = ()
    placement_error: str = ""

    @staticmethod
    def of_rules(placement_rules: Sequence[PlacementRule], placement_error: str = "") -> PlacementMatch:
        return PlacementMatch(tuple(one.name for one in placement_rules), placement_error)


def status_of(
    placement: Object, selected: Mapping[str, PlacementMatch], kind_errors: Sequence[Exception], now: str
) -> Object:
    """Returns the status. `selected` are the roots it selects, by a title such as `Deployment web`."""
    metadata = placement["metadata"]
    name, generation = metadata["name"], metadata.get("generation", 1)
    followers = {title: one for title, one in selected.items() if one.names[0] == name}
    overridden_by = {title: one.names[0] for title, one in sorted(selected.items()) if one.names[0] != name}
    obj = placement
    for kind, condition in (
        (VALID, _valid_condition(placement, followers, kind_errors)),
        (SUPERSEDED, _superseded_condition(overridden_by)),
    ):
        status, reason, message = condition
        obj = set_condition(obj, kind, status, reason=reason, message=message, observed_generation=generation, now=now)
    return {**obj["status"], "placed": len(followers), "observedGeneration": generation}


def _superseded_condition(lost: Mapping[str, str]) -> ConditionFields:
    if not lost:
        return "False", "NotSuperseded", ""
    listed = [f"{title} follows Placement {other}" for title, other in lost.items()]
    more = [f"and {len(listed) - MAX_NAMED} more"] if len(listed) > MAX_NAMED else []
    return "True", "HigherPriority", "; ".join([*listed[:MAX_NAMED], *more])


def _valid_condition(
    placement: Object, followers: Mapping[str, PlacementMatch], kind_errors: Sequence[Exception]
) -> ConditionFields:
    try:
        parse_policy(placement)
    except StatusError as error:
        return "False", "Invalid", str(error)
    for cause in kind_errors:
        return "False", cause.reason if isinstance(cause, KindNotPlaceable) else "KindNotServed", str(cause)
    for title, one in sorted(followers.items()):
        if one.placement_error:
            return "False", "CannotBePlaced", f"{title}: {one.placement_error}"
    return "True", "Valid", ""
