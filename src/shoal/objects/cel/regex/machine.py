"""Finds match positions, leftmost and first alternative first, in time linear in text and expression.

All alternatives run in parallel over the text, in order of preference. There is no backtracking.
"""

from __future__ import annotations

from collections.abc import Iterator

from shoal.objects.cel.errors import CelError
from shoal.objects.cel.regex.classes import Set
from shoal.objects.cel.regex.reading import Assertion, Either, Repeat, Sequence, Tree

MAX_STEPS = 3_000_000
"""Steps of one search, about a second."""

Thread = tuple[int, int]
"""The instruction and the start of its match."""


class Machine:
    def __init__(self, tree: Tree) -> None:
        self._sets: list[Set | None] = []
        self._asserts: list[str] = []
        self._next: list[tuple[int, ...]] = []
        self._known: list[dict[str, bool]] = []
        self._end = self._put(())
        self._start = self._built(tree, self._end)
        self._steps = 0

    def matches(self, text: str, limit: int = -1) -> Iterator[tuple[int, int]]:
        """Yields matches that do not overlap. An empty match never touches the one before."""
        self._steps = 0
        at, last = 0, -1
        while at <= len(text) and limit != 0:
            found = self._search(text, at)
            if found is None:
                return
            start, end = found
            accepted = not (end == start and start == last)
            at = end + 1 if end == start else end
            last = end
            if accepted:
                limit -= 1
                yield found

    def _put(self, following: tuple[int, ...], wanted: Set | None = None, asserted: str = "") -> int:
        self._sets.append(wanted)
        self._asserts.append(asserted)
        self._next.append(following)
        self._known.append({})
        return len(self._next) - 1

    def _built(self, tree: Tree, then: int) -> int:
        """Returns the first instruction of the node. `following` is the instruction after it."""
        if isinstance(tree, Set):
            return self._put((then,), tree)
        if isinstance(tree, Assertion):
            return self._put((then,), None, tree.kind)
        if isinstance(tree, Sequence):
            for part in reversed(tree.parts):
                then = self._built(part, then)
            return then
        if isinstance(tree, Either):
            return self._put(tuple(self._built(part, then) for part in tree.parts))
        return self._repeat(tree, then)

    def _repeat(self, tree: Repeat, then: int) -> int:
        def fork(inside: int) -> tuple[int, int]:
            return (inside, then) if tree.greedy else (then, inside)

        rest = then
        if tree.most is None:
            rest = self._put(())
            self._next[rest] = fork(self._built(tree.part, rest))
        else:
            for _ in range(tree.most - tree.least):
                rest = self._put(fork(self._built(tree.part, rest)))
        for _ in range(tree.least):
            rest = self._built(tree.part, rest)
        return rest

    def _search(self, text: str, begin: int) -> tuple[int, int] | None:
        found: tuple[int, int] | None = None
        threads: list[Thread] = []
        for at in range(begin, len(text) + 1):
            if found is None:
                threads.append((self._start, at))
            elif not threads:
                return found
            waiting, hit = self._spread(threads, text, at)
            if hit is not None:
                found = (hit, at)
            self._steps += len(waiting) + 1
            if self._steps > MAX_STEPS:
                raise CelError("the search of the regular expression takes too long")
            char = text[at : at + 1]
            threads = [(self._next[here][0], start) for here, start in waiting if char and self._takes(here, char)]
        return found

    def _takes(self, here: int, char: str) -> bool:
        known = self._known[here]
        taken = known.get(char)
        if taken is None:
            wanted = self._sets[here]
            taken = known[char] = wanted is not None and wanted.has(char)
            if len(known) > 512:
                known.clear()
        return taken

    def _spread(self, threads: list[Thread], text: str, at: int) -> tuple[list[Thread], int | None]:
        """Returns the threads that wait for a character, and the start of the match that ends here."""
        waiting: list[Thread] = []
        seen: set[int] = set()
        for entry, start in threads:
            stack = [entry]
            while stack:
                here = stack.pop()
                if here in seen:
                    continue
                seen.add(here)
                if here == self._end:
                    # The remaining threads have lower preference than this match.
                    return waiting, start
                if self._sets[here] is not None:
                    waiting.append((here, start))
                elif not self._asserts[here] or _holds(self._asserts[here], text, at):
                    stack.extend(reversed(self._next[here]))
            self._steps += 1
        return waiting, None


def _holds(kind: str, text: str, at: int) -> bool:
    if kind == "\\A":
        return at == 0
    if kind == "\\z":
        return at == len(text)
    if kind == "^":
        return at == 0 or text[at - 1] == "\n"
    if kind == "$":
        return at == len(text) or text[at] == "\n"
    edge = _word(text[at - 1 : at] if at else "") != _word(text[at : at + 1])
    return edge == (kind == "\\b")


def _word(char: str) -> bool:
    return char.isascii() and (char.isalnum() or char == "_")
