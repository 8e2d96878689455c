"""Checks what many clients saw of one store against the one order that revisions give. Pure.

A linearizability checker without a search: every write that was answered has its place in the order, and watches tell
the places of all others. What remains: nobody who could have known better was shown an older state, every write had the
predecessor it asked for, and who followed was told everything, once and in order.

It takes keys that did not exist before the history began, values that are sent once, deletions that name the revision
they delete, and at least one follower from the beginning to the end.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import accumulate
from typing import NamedTuple


class Outcome(Enum):
    DONE = "done"
    REFUSED = "refused"
    """The server said that nothing was done."""
    UNKNOWN = "unknown"
    """No answer, or one that does not say: it may have been done, or be done later."""


class State(NamedTuple):
    revision: int
    value: str


@dataclass(frozen=True, slots=True)
class Request:
    client: int
    verb: str
    """create, update, delete, get or list."""
    key: str
    called: float
    returned: float
    outcome: Outcome
    revision: int = 0
    """Of what was written or read, or of the list; 0: a get found nothing, or the answer to a deletion."""
    value: str = ""
    """Written or read."""
    before: int = 0
    """The revision an update or a deletion is about."""
    found: Mapping[str, State] = field(default_factory=dict)
    """By a list."""

    def __str__(self) -> str:
        about = f" {self.key}" if self.key else ""
        return f"client {self.client}: {self.verb}{about}{f' at {self.before}' if self.before else ''}"


class Told(NamedTuple):
    """An event of a watch."""

    kind: str
    """ADDED, MODIFIED, DELETED or BOOKMARK."""
    key: str
    revision: int
    value: str
    at: float


@dataclass(slots=True)
class Followed:
    """A list, and everything that watches told after it; one that was cut goes on in the same, after what it told."""

    listed: Request
    told: list[Told] = field(default_factory=list)

    @property
    def end(self) -> int:
        return max((each.revision for each in self.told), default=self.listed.revision)


class Problem(NamedTuple):
    kind: str
    text: str


def problems(requests: Iterable[Request], followed: Iterable[Followed]) -> list[Problem]:
    """What cannot be, in words; empty when the history is in order."""
    return list(_Check(list(requests), list(followed)).all())


class _Check:
    def __init__(self, requests: list[Request], followed: list[Followed]) -> None:
        self._requests, self._followed = requests, followed
        self._sent = {each.value: each for each in requests if each.verb in ("create", "update")}
        self._deletions: defaultdict[tuple[str, int], list[Request]] = defaultdict(list)
        """By key and the revision to be deleted; those that may have been done."""
        self._states: dict[int, tuple[str, str]] = {}
        """By revision: key and value; an empty value: it is deleted."""
        self._by_key: dict[str, list[int]] = {}
        self._order: list[int] = []
        self._times: list[float] = []
        self._newest: list[int] = []

    def all(self) -> Iterator[Problem]:
        for each in self._requests:
            if each.verb == "delete" and each.outcome is not Outcome.REFUSED:
                self._deletions[each.key, each.before].append(each)
        yield from self._collect()
        yield from self._writes()
        for request in self._requests:
            if request.outcome is Outcome.DONE:
                yield from self._answer(request)
            elif request.outcome is Outcome.REFUSED and request.verb == "update":
                yield from self._refusal(request)
        for followed in self._followed:
            yield from self._follower(followed)
        yield from self._lost()

    # --- what is known ---

    def _collect(self) -> Iterator[Problem]:
        """The order, and when anybody knew how much of it."""
        known: list[tuple[float, int]] = []
        for each in self._requests:
            if each.outcome is not Outcome.DONE:
                continue
            if each.revision:
                known.append((each.returned, each.revision))
            if each.verb == "list":
                for key, state in each.found.items():
                    yield from self._saw(state.revision, key, state.value)
            elif each.revision:
                yield from self._saw(each.revision, each.key, each.value)
        for followed in self._followed:
            for told in followed.told:
                known.append((told.at, told.revision))
                if told.kind != "BOOKMARK":
                    yield from self._saw(told.revision, told.key, "" if told.kind == "DELETED" else told.value)
        known.sort()
        self._times = [at for at, _ in known]
        self._newest = list(accumulate((revision for _, revision in known), max))
        self._order = sorted(self._states)
        by_key: defaultdict[str, list[int]] = defaultdict(list)
        for revision in self._order:
            by_key[self._states[revision][0]].append(revision)
        self._by_key = dict(by_key)

    def _saw(self, revision: int, key: str, value: str) -> Iterator[Problem]:
        found = self._states.setdefault(revision, (key, value))
        if found != (key, value):
            yield Problem("order", f"revision {revision} is both {found} and {(key, value)}")

    def _known(self, at: float) -> int:
        """The newest revision that anybody had been told before."""
        index = bisect_left(self._times, at)
        return self._newest[index - 1] if index else 0

    def _as_of(self, key: str, revision: int) -> State:
        """The state of a key then; revision 0: it had never been there."""
        revisions = self._by_key.get(key, [])
        index = bisect_right(revisions, revision)
        return State(revisions[index - 1], self._states[revisions[index - 1]][1]) if index else State(0, "")

    def _after(self, key: str, revision: int) -> int:
        """The next change of the key; 0: none."""
        revisions = self._by_key.get(key, [])
        index = bisect_right(revisions, revision)
        return revisions[index] if index < len(revisions) else 0

    # --- writes ---

    def _writes(self) -> Iterator[Problem]:
        done: dict[str, int] = {}
        for key, revisions in self._by_key.items():
            before = State(0, "")
            for revision in revisions:
                value = self._states[revision][1]
                if value:
                    yield from self._written(key, before, State(revision, value))
                    first = done.setdefault(value, revision)
                    if first != revision:
                        yield Problem("twice", f"{key}: {value} was written at {first} and again at {revision}")
                else:
                    yield from self._deleted(key, before, revision)
                before = State(revision, value)

    def _written(self, key: str, before: State, after: State) -> Iterator[Problem]:
        sent = self._sent.get(after.value)
        if sent is None or sent.key != key:
            yield Problem("invented", f"{key} is {after.value} at {after.revision}, which nobody has written there")
            return
        if sent.outcome is Outcome.REFUSED:
            yield Problem("refused", f"{sent} was refused, and is there at {after.revision}")
        if sent.verb == "create" and before.value:
            yield Problem("precondition", f"{sent} was done at {after.revision}, over {before}")
        if sent.verb == "update" and (sent.before != before.revision or not before.value):
            yield Problem("precondition", f"{sent} was done at {after.revision}, over {before}")

    def _deleted(self, key: str, before: State, revision: int) -> Iterator[Problem]:
        if not before.value:
            yield Problem("precondition", f"{key} was deleted at {revision}, when it was not there")
        elif not self._deletions.get((key, before.revision)):
            yield Problem("invented", f"{key} was deleted at {revision}, and nobody asked for it at {before.revision}")

    def _lost(self) -> Iterator[Problem]:
        """Acknowledged, and seen by nobody who must have seen it."""
        seen = {told.revision for each in self._followed for told in each.told if told.kind != "BOOKMARK"}
        spans = [(each.listed.revision, each.end) for each in self._followed]
        for each in self._requests:
            if each.outcome is not Outcome.DONE or each.verb not in ("create", "update"):
                continue
            covered = any(begin < each.revision <= end for begin, end in spans)
            if covered and each.revision not in seen:
                yield Problem("lost", f"{each} was acknowledged at {each.revision}, and no watch has told of it")
        for (key, before), asked in self._deletions.items():
            if sum(each.outcome is Outcome.DONE for each in asked) > 1:
                yield Problem("twice", f"{asked[0]} was acknowledged more than once")
            if any(each.outcome is Outcome.DONE for each in asked):
                after = self._after(key, before)
                if (not after or self._states[after][1]) and any(begin < before < end for begin, end in spans):
                    yield Problem("lost", f"{asked[0]} was acknowledged, and no watch has told of it")

    # --- answers ---

    def _answer(self, each: Request) -> Iterator[Problem]:
        known = self._known(each.called)
        if each.verb in ("create", "update"):
            if each.revision <= known:
                yield Problem("order", f"{each} was done at {each.revision}, when {known} was known already")
        elif each.verb == "list":
            if each.revision < known:
                yield Problem("stale", f"{each} is of {each.revision}, when {known} was known already")
            yield from self._listed(each)
        elif each.verb == "get" and each.revision:
            after = self._after(each.key, each.revision)
            if after and after <= known:
                yield Problem("stale", f"{each} gave {each.revision}, when {after} was known already")
        elif each.verb == "get":
            yield from self._not_found(each, known)

    def _not_found(self, each: Request, known: int) -> Iterator[Problem]:
        state = self._as_of(each.key, known)
        while state.value:
            after = self._after(each.key, state.revision)
            if not after:
                yield Problem("lost", f"{each} found nothing, and {state} was known and never deleted")
                return
            asked = self._deletions.get((each.key, state.revision), [])
            state = State(after, self._states[after][1])
            if not state.value and all(deletion.called > each.returned for deletion in asked):
                yield Problem("lost", f"{each} found nothing before anybody deleted it, at {after}")

    def _listed(self, each: Request) -> Iterator[Problem]:
        for key in self._by_key.keys() | each.found.keys():
            there, found = self._as_of(key, each.revision), each.found.get(key, State(0, ""))
            if not there.value:
                there = State(0, "")
            if found != there:
                kind = "stale" if found.revision < there.revision else "order"
                yield Problem(kind, f"{each} of {each.revision} has {key} as {found}, and it was {there}")

    def _refusal(self, each: Request) -> Iterator[Problem]:
        """An update that came too late: then somebody else must have been there before."""
        after = self._after(each.key, each.before)
        sent = self._sent.get(self._states[after][1]) if after else None
        if not after or (sent is not None and sent.called > each.returned):
            yield Problem("refused", f"{each} was refused, and nobody had changed it")

    # --- followers ---

    def _follower(self, followed: Followed) -> Iterator[Problem]:
        who, last = f"client {followed.listed.client}: a watch", followed.listed.revision
        there = {key: state.value for key, state in followed.listed.found.items()}
        told: set[int] = set()
        for each in followed.told:
            if each.kind == "BOOKMARK":
                if each.revision < last:
                    yield Problem("bookmark", f"{who} had a bookmark of {each.revision} after {last}")
                last = max(last, each.revision)
                continue
            if each.revision in told:
                yield Problem("repeat", f"{who} was told of {each.revision} twice")
            elif each.revision <= last:
                yield Problem("swapped", f"{who} was told of {each.revision} after {last}")
            told.add(each.revision)
            last = max(last, each.revision)
            if (each.kind == "ADDED") == (each.key in there):
                over = there.get(each.key) or "nothing"
                yield Problem("gap", f"{who} was told {each.kind} {each.key} at {each.revision}, over {over}")
            if each.kind == "DELETED":
                there.pop(each.key, None)
            else:
                there[each.key] = each.value
        begin, end = bisect_right(self._order, followed.listed.revision), bisect_right(self._order, followed.end)
        for revision in self._order[begin:end]:
            if revision not in told:
                yield Problem("gap", f"{who} was not told of {revision} ({self._states[revision]})")
