"""Checks a history of concurrent requests against the one order that revisions give.

A linearizability checker without a search: every write has its place in the order already. What remains is
that nobody who could have known better was shown an older state, and that a key never goes back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Operation:
    client: int
    op: str
    """write or read."""
    key: str
    called: float
    returned: float
    revision: int
    """Of the object written or read; 0 for a read that found nothing."""
    result: str
    """The state written or read."""


def problems(history: Iterable[Operation]) -> list[str]:
    """What cannot be, in words; empty when the history is in order."""
    found: list[str] = []
    by_key: defaultdict[str, list[Operation]] = defaultdict(list)
    states: dict[int, tuple[str, str]] = {}
    for each in history:
        by_key[each.key].append(each)
        if each.revision and states.setdefault(each.revision, (each.key, each.result)) != (each.key, each.result):
            found.append(f"revision {each.revision} is both {states[each.revision]} and {(each.key, each.result)}")
    for key, operations in by_key.items():
        # Ordered by return: what returned before a call was made is what that caller could have known.
        ended = sorted(operations, key=lambda each: each.returned)
        newest, next_ended = 0, 0
        for each in sorted(operations, key=lambda each: each.called):
            while next_ended < len(ended) and ended[next_ended].returned < each.called:
                newest = max(newest, ended[next_ended].revision)
                next_ended += 1
            if each.revision < newest:
                found.append(
                    f"client {each.client}: {each.op} of {key} gave {each.revision}, {newest} was known before"
                )
    return found
