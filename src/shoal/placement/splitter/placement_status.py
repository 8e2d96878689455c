"""Builds the status of a Placement: validity, number of placed objects, and objects that follow another Placement.
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.kinds.workload.placement import AFFINITY_MET, LEFT_BEHIND, SERVED, SUPERSEDED, VALID
from shoal.objects.conditions import get_condition, set_condition
from shoal.objects.errors import StatusError
from shoal.placement.policy import parse_policy
from shoal.placement.splitter.placeable import KindNotPlaceable

Object = dict[str, Any]
ConditionFields = tuple[str, str, str]
"""Status, reason and message of a condition."""
AFFINITY_NOT_MET = "AffinityNotMet"
MAX_NAMED = 5
"""The most objects that are named in a message."""


@dataclass(frozen=True, slots=True)
class PlacementMatch:
    """The Placements that select one root, the applied one first, and why it cannot be applied."""

    names: tuple[str, ...] = ()
    placement_error: str = ""
    refusals: tuple[str, ...] = ()
    """Clusters that do not take the kind, and why."""
    unmet_affinities: tuple[str, ...] = ()
    """Clusters that do not meet its workload affinity, though it is there or is not placed, and why."""
    left_behind_by: tuple[str, ...] = ()
    """Placements of the objects that it selects and does not follow."""
    left_behind_reason: str = ""


def status_of(
    placement: Object, selected: Mapping[str, PlacementMatch], kind_errors: Sequence[Exception], now: str
) -> Object:
    """Returns the status. `selected` are the roots that it selects or leaves behind, by a title such as
    `Deployment web`.
    """
    metadata = placement["metadata"]
    name, generation = metadata["name"], metadata.get("generation", 1)
    followers = {title: one for title, one in selected.items() if one.names[:1] == (name,)}
    overridden_by = {title: one.names[0] for title, one in sorted(selected.items()) if name in one.names[1:]}
    left_behind = [
        f"{title} {one.left_behind_reason}" for title, one in sorted(selected.items()) if name in one.left_behind_by
    ]
    obj = placement
    for kind, condition in (
        (VALID, _valid_condition(placement, followers, kind_errors)),
        (SUPERSEDED, _superseded_condition(overridden_by)),
        (SERVED, _served_condition(followers)),
        (AFFINITY_MET, _affinity_condition(followers)),
        (LEFT_BEHIND, _left_behind_condition(left_behind)),
    ):
        status, reason, message = condition
        if kind in (SERVED, AFFINITY_MET) and reason == kind and get_condition(obj, kind) is None:
            continue
        obj = set_condition(obj, kind, status, reason=reason, message=message, observed_generation=generation, now=now)
    return {**obj["status"], "placed": len(followers), "observedGeneration": generation}


def _superseded_condition(lost: Mapping[str, str]) -> ConditionFields:
    if not lost:
        return "False", "NotSuperseded", ""
    return "True", "HigherPriority", named_list([f"{title} follows Placement {other}" for title, other in lost.items()])


def _served_condition(followers: Mapping[str, PlacementMatch]) -> ConditionFields:
    refusals = sorted({refusal for one in followers.values() for refusal in one.refusals})
    return ("False", "APINotServed", named_list(refusals)) if refusals else ("True", "Served", "")


def _affinity_condition(followers: Mapping[str, PlacementMatch]) -> ConditionFields:
    unmet = [f"{title}: {text}" for title, one in sorted(followers.items()) for text in one.unmet_affinities]
    return ("False", AFFINITY_NOT_MET, named_list(unmet)) if unmet else ("True", AFFINITY_MET, "")


def _left_behind_condition(left_behind: Sequence[str]) -> ConditionFields:
    if not left_behind:
        return "False", "NothingLeftBehind", ""
    return "True", "NotFollowed", named_list(left_behind)


def named_list(texts: Sequence[str]) -> str:
    return "; ".join(_first_texts(texts))


def _valid_condition(
    placement: Object, followers: Mapping[str, PlacementMatch], kind_errors: Sequence[Exception]
) -> ConditionFields:
    """All errors, with the reason of the first."""
    errors: list[tuple[str, str]] = []
    try:
        parse_policy(placement)
    except StatusError as error:
        errors.append(("Invalid", str(error)))
    errors += [
        (cause.reason if isinstance(cause, KindNotPlaceable) else "KindNotServed", str(cause)) for cause in kind_errors
    ]
    if not errors:
        unplaceable = [
            f"{title}: {one.placement_error}" for title, one in sorted(followers.items()) if one.placement_error
        ]
        errors = [("CannotBePlaced", text) for text in _first_texts(unplaceable)]
    if not errors:
        return "True", "Valid", ""
    texts = list(dict.fromkeys(text for _, text in errors))
    return "False", errors[0][0], texts[0] if len(texts) == 1 else "; ".join(text.rstrip(".") for text in texts)


def _first_texts(texts: Sequence[str]) -> list[str]:
    """Returns the first texts, and how many more there are."""
    more = [f"and {len(texts) - MAX_NAMED} more"] if len(texts) > MAX_NAMED else []
    return [*texts[:MAX_NAMED], *more]
