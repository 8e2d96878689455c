"""Finds match positions, leftmost and first alternative first, in time linear in text and expression.

All alternatives run in parallel over the text, in order of preference. There is no backtracking.
"""

from __future__ import annotations

from collections.abc import Iterator

from shoal.objects.cel.errors import CELError
from shoal.objects.cel.pause import current_pause
from shoal.objects.cel.regex.charclass import CharSet
from shoal.objects.cel.regex.syntax import AlternateNode, AssertionNode, ConcatNode, RegexNode, RepeatNode

MAX_STEPS = 3_000_000
"""Steps of one search, about a second."""
PAUSE_STEPS = 5_000

MachineThread = tuple[int, int]
"""The instruction and the start of its match."""


class StepCounter:
    """Steps of one search. Searches of two evaluations may take turns on one machine."""

    def __init__(self) -> None:
        self._left, self._until_pause = MAX_STEPS, PAUSE_STEPS
        self._pause = current_pause.get()

    def count(self, steps: int) -> None:
        self._until_pause -= steps
        if self._until_pause < 0:
            self._left -= PAUSE_STEPS - self._until_pause
            if self._left < 0:
                raise CELError("the match of the regular expression exceeds its step limit")
            self._until_pause = PAUSE_STEPS
            self._pause()


class RegexMachine:
    def __init__(self, tree: RegexNode) -> None:
        self._sets: list[CharSet | None] = []
        self._asserts: list[str] = []
        self._next: list[tuple[int, ...]] = []
        self._match_cache: list[dict[str, bool]] = []
        self._end = self._emit(())
        self._start = self._compile(tree, self._end)

    def matches(self, text: str, limit: int = -1) -> Iterator[tuple[int, int]]:
        """Yields matches that do not overlap. An empty match never touches the one before."""
        at, last, steps = 0, -1, StepCounter()
        while at <= len(text) and limit != 0:
            found = self._search(text, at, steps)
            if found is None:
                return
            start, end = found
            accepted = not (end == start and start == last)
            at = end + 1 if end == start else end
            last = end
            if accepted:
                limit -= 1
                yield found

    def _emit(self, following: tuple[int, ...], charset: CharSet | None = None, assertion: str = "") -> int:
        self._sets.append(charset)
        self._asserts.append(assertion)
        self._next.append(following)
        self._match_cache.append({})
        return len(self._next) - 1

    def _compile(self, tree: RegexNode, following: int) -> int:
        """Returns the first instruction of the node. `following` is the instruction after it."""
        if isinstance(tree, CharSet):
            return self._emit((following,), tree)
        if isinstance(tree, AssertionNode):
            return self._emit((following,), None, tree.kind)
        if isinstance(tree, ConcatNode):
            for part in reversed(tree.parts):
                following = self._compile(part, following)
            return following
        if isinstance(tree, AlternateNode):
            return self._emit(tuple(self._compile(part, following) for part in tree.parts))
        return self._repeat(tree, following)

    def _repeat(self, tree: RepeatNode, following: int) -> int:
        def fork(inside: int) -> tuple[int, int]:
            return (inside, following) if tree.greedy else (following, inside)

        rest = following
        if tree.maximum is None:
            rest = self._emit(())
            self._next[rest] = fork(self._compile(tree.part, rest))
        else:
            for _ in range(tree.maximum - tree.minimum):
                rest = self._emit(fork(self._compile(tree.part, rest)))
        for _ in range(tree.minimum):
            rest = self._compile(tree.part, rest)
        return rest

    def _search(self, text: str, begin: int, steps: StepCounter) -> tuple[int, int] | None:
        match: tuple[int, int] | None = None
        threads: list[MachineThread] = []
        for at in range(begin, len(text) + 1):
            if match is None:
                threads.append((self._start, at))
            elif not threads:
                return match
            consuming, hit = self._follow(threads, text, at)
            if hit is not None:
                match = (hit, at)
            steps.count(len(consuming) + len(threads) + 1)
            char = text[at : at + 1]
            threads = [(self._next[here][0], start) for here, start in consuming if char and self._accepts(here, char)]
        return match

    def _accepts(self, here: int, char: str) -> bool:
        cache = self._match_cache[here]
        is_match = cache.get(char)
        if is_match is None:
            charset = self._sets[here]
            is_match = cache[char] = charset is not None and charset.contains(char)
            if len(cache) > 512:
                cache.clear()
        return is_match

    def _follow(self, threads: list[MachineThread], text: str, at: int) -> tuple[list[MachineThread], int | None]:
        """Returns the threads that wait for a character, and the start of the match that ends here."""
        consuming: list[MachineThread] = []
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
                    return consuming, start
                if self._sets[here] is not None:
                    consuming.append((here, start))
                elif not self._asserts[here] or _assertion_holds(self._asserts[here], text, at):
                    stack.extend(reversed(self._next[here]))
        return consuming, None


def _assertion_holds(kind: str, text: str, at: int) -> bool:
    if kind == "\\A":
        return at == 0
    if kind == "\\z":
        return at == len(text)
    if kind == "^":
        return at == 0 or text[at - 1] == "\n"
    if kind == "$":
        return at == len(text) or text[at] == "\n"
    edge = _is_word_char(text[at - 1 : at] if at else "") != _is_word_char(text[at : at + 1])
    return edge == (kind == "\\b")


def _is_word_char(char: str) -> bool:
    return char.isascii() and (char.isalnum() or char == "_")
