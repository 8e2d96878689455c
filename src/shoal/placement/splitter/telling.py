"""Builds the status of a Placement: validity, number of placed objects, and objects that follow another Placement.
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.kinds.placement import SUPERSEDED, VALID
from shoal.objects.conditions import set_condition
from shoal.objects.errors import StatusError
from shoal.placement.policy import Rule, policy_of
from shoal.placement.splitter.kinds import NotPlaceable

Object = dict[str, Any]
Verdict = tuple[str, str, str]
"""Status, reason and message of a condition."""
NAMED = 5
"""The most objects that are named in a message."""


@dataclass(frozen=True, slots=True)
class Following:
    """The Placements that select one root, the applied one first, and why it cannot be applied."""

    names: tuple[str, ...] = ()
    problem: str = ""

    @staticmethod
    def of(candidates: Sequence[Rule], problem: str = "") -> Following:
        return Following(tuple(one.name for one in candidates), problem)


def told(placement: Object, selected: Mapping[str, Following], wrong: Sequence[Exception], now: str) -> Object:
    """Returns the status. `selected` are the roots it selects, by a title such as `Deployment web`."""
    metadata = placement["metadata"]
    name, generation = metadata["name"], metadata.get("generation", 1)
    mine = {title: one for title, one in selected.items() if one.names[0] == name}
    lost = {title: one.names[0] for title, one in sorted(selected.items()) if one.names[0] != name}
    obj = placement
    for kind, verdict in ((VALID, _validity(placement, mine, wrong)), (SUPERSEDED, _superseded(lost))):
        status, reason, message = verdict
        obj = set_condition(obj, kind, status, reason=reason, message=message, observed_generation=generation, now=now)
    return {**obj["status"], "placed": len(mine), "observedGeneration": generation}


def _superseded(lost: Mapping[str, str]) -> Verdict:
    if not lost:
        return "False", "NotSuperseded", ""
    listed = [f"{title} follows Placement {other}" for title, other in lost.items()]
    more = [f"and {len(listed) - NAMED} more"] if len(listed) > NAMED else []
    return "True", "HigherPriority", "; ".join([*listed[:NAMED], *more])


def _validity(placement: Object, mine: Mapping[str, Following], wrong: Sequence[Exception]) -> Verdict:
    try:
        policy_of(placement)
    except StatusError as error:
        return "False", "Invalid", str(error)
    for cause in wrong:
        return "False", cause.reason if isinstance(cause, NotPlaceable) else "KindNotServed", str(cause)
    for title, one in sorted(mine.items()):
        if one.problem:
            return "False", "CannotBePlaced", f"{title}: {one.problem}"
    return "True", "Valid", ""
