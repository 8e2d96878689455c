"""Proves that Python's `re` runs a pattern in time linear in the text, from the pattern's syntax tree.

`re` backtracks. It tries nothing twice if every choice is settled by the next character: whether a repetition goes on,
and which alternative is taken. So two things are asked of each choice: the characters that each way may begin with are
disjoint, or the choice is never taken back (possessive, atomic) and looks ahead a bounded number of characters. Choices
outside of repetitions may overlap if they are few.

A search starts at every character. It is linear if no start fails late: after an unbounded repetition nothing can fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from re import _compiler, _parser  # type: ignore[attr-defined]
from re._constants import (  # type: ignore[import-not-found]
    ANY,
    ASSERT,
    ASSERT_NOT,
    AT,
    ATOMIC_GROUP,
    BRANCH,
    IN,
    LITERAL,
    MAX_REPEAT,
    MAXREPEAT,
    MIN_REPEAT,
    NOT_LITERAL,
    POSSESSIVE_REPEAT,
    RANGE,
    SUBPATTERN,
)
from typing import Any

WHOLE_TEXT = ("fullmatch", "match")
SEARCHES = ("search", "findall", "finditer", "sub", "subn", "split")
MAX_WAYS = 1000
"""Overlapping choices outside of repetitions, multiplied."""
MAX_WIDTH = 1000
"""Characters that count as bounded."""

Node = tuple[Any, Any]
Chars = frozenset[str]
NOTHING: Chars = frozenset()
_ONE_CHAR = (LITERAL, NOT_LITERAL, ANY, IN)
_REPEATS = (MAX_REPEAT, MIN_REPEAT, POSSESSIVE_REPEAT)
_SAMPLES = [chr(code) for code in range(0x180)] + list("μſK٣\u2028\u3000一\ud800\U0001f600\U0010ffff")


class NotLinear(Exception):
    """Why a pattern is not proven."""


def prove_linear(pattern: str | bytes, flags: int, method: str) -> None:
    """Raises NotLinear unless the method of the pattern runs in linear time."""
    if method not in (*WHOLE_TEXT, *SEARCHES):
        raise NotLinear(f"{method} is not a way to match")
    tree = _parser.parse(pattern, flags)
    proof = _Proof(tree.state, isinstance(pattern, bytes), _alphabet(tree, isinstance(pattern, bytes)))
    proof.check(list(tree), NOTHING, in_repeat=False)
    if method in SEARCHES:
        _check_no_late_failure(list(tree), can_fail_after=False)


def _alphabet(tree: Any, is_bytes: bool) -> list[str]:
    """Characters that tell any two classes of the pattern apart."""
    edges = {code + step for code in _codes(list(tree)) for step in (-1, 0, 1)}
    highest = 0xFF if is_bytes else 0x10FFFF
    chars = {*_SAMPLES, *(chr(code) for code in edges if 0 <= code <= highest)}
    return sorted(char for char in chars if ord(char) <= highest)


def _codes(nodes: Iterable[Node]) -> Iterable[int]:
    for op, value in nodes:
        if op in (LITERAL, NOT_LITERAL):
            yield value
        elif op is RANGE:
            yield from value
        elif op is IN:
            yield from _codes(value)
        elif op is not AT:
            for inner in _inner(op, value):
                yield from _codes(inner)


def _inner(op: Any, value: Any) -> list[list[Node]]:
    """Returns the sequences inside a node."""
    if op in _REPEATS:
        return [list(value[2])]
    if op is BRANCH:
        return [list(each) for each in value[1]]
    if op is SUBPATTERN:
        return [list(value[3])]
    if op in (ASSERT, ASSERT_NOT):
        return [list(value[1])]
    if op is ATOMIC_GROUP:
        return [list(value)]
    return []


@dataclass
class _Proof:
    state: Any
    is_bytes: bool
    alphabet: Sequence[str]
    ways: int = 1
    _members: dict[str, Chars] = field(default_factory=dict)

    def check(self, nodes: list[Node], follow: Chars, *, in_repeat: bool) -> None:
        """`follow` are the characters that may come after the nodes."""
        for index, (op, value) in enumerate(nodes):
            after, nullable = self.first(nodes[index + 1 :])
            self._check_node(op, value, after | follow if nullable else after, in_repeat=in_repeat)

    def _check_node(self, op: Any, value: Any, follow: Chars, *, in_repeat: bool) -> None:
        if op in _REPEATS:
            self._check_repeat(op, value, follow, in_repeat=in_repeat)
        elif op is BRANCH:
            self._check_branch([list(each) for each in value[1]], follow, in_repeat=in_repeat)
        elif op is SUBPATTERN:
            if value[1] or value[2]:
                raise NotLinear("flags within the pattern are not supported")
            self.check(list(value[3]), follow, in_repeat=in_repeat)
        elif op is ATOMIC_GROUP:
            self.check(list(value), NOTHING, in_repeat=in_repeat)
        elif op in (ASSERT, ASSERT_NOT):
            if _width(list(value[1])) > MAX_WIDTH:
                raise NotLinear("a look-around is unbounded")
            self.check(list(value[1]), NOTHING, in_repeat=True)
        elif op not in (*_ONE_CHAR, AT):
            raise NotLinear(f"{op} is not supported")

    def _check_repeat(self, op: Any, value: Any, follow: Chars, *, in_repeat: bool) -> None:
        least, most, body = value[0], value[1], list(value[2])
        begin, nullable = self.first(body)
        if nullable and most != 1:
            raise NotLinear("the body of a repetition may be empty")
        bounded = _width([(op, value)]) <= MAX_WIDTH
        if op is POSSESSIVE_REPEAT:
            if begin & follow and _width(body) > MAX_WIDTH:
                raise NotLinear("a possessive repetition looks ahead without bound")
            self.check(body, NOTHING, in_repeat=True)
            return
        if least != most and (begin & follow or nullable):
            ways = most - least + 1 if bounded or most == 1 else MAXREPEAT
            self._count_ways(ways, begin & follow, in_repeat=in_repeat)
        self.check(body, begin | follow if most > 1 else follow, in_repeat=in_repeat or most > 1)

    def _check_branch(self, alternatives: list[list[Node]], follow: Chars, *, in_repeat: bool) -> None:
        seen: Chars = NOTHING
        overlap: Chars = NOTHING
        before, ways = self.ways, []
        for alternative in alternatives:
            begin, nullable = self.first(alternative)
            begin = begin | follow if nullable else begin
            overlap |= begin & seen
            seen |= begin
            self.ways = before
            self.check(alternative, follow, in_repeat=in_repeat)
            ways.append(self.ways)
        self.ways = max(ways)
        if overlap:
            self.ways = before
            self._count_ways(sum(ways) // before, overlap, in_repeat=in_repeat)

    def _count_ways(self, ways: int, overlap: Chars, *, in_repeat: bool) -> None:
        self.ways *= ways
        if in_repeat or self.ways > MAX_WAYS:
            raise NotLinear(f"two ways begin with {sorted(overlap)[:3]}")

    def first(self, nodes: list[Node]) -> tuple[Chars, bool]:
        """Returns the characters that a match of the nodes may begin with, and whether it may be empty."""
        begin: Chars = NOTHING
        for op, value in nodes:
            if op in _ONE_CHAR:
                return begin | self._chars((op, value)), False
            if op in (AT, ASSERT, ASSERT_NOT):
                continue
            found = [self.first(inner) for inner in _inner(op, value)]
            begin = begin.union(*(chars for chars, _ in found))
            if not any(nullable for _, nullable in found) and not (op in _REPEATS and value[0] == 0):
                return begin, False
        return begin, True

    def _chars(self, node: Node) -> Chars:
        key = repr(node)
        if key not in self._members:
            match = _compiler.compile(_parser.SubPattern(self.state, [node]), self.state.flags).fullmatch
            self._members[key] = frozenset(
                char for char in self.alphabet if match(char.encode("latin-1") if self.is_bytes else char)
            )
        return self._members[key]


def _width(nodes: list[Node]) -> int:
    """Returns the most characters that the nodes match."""
    total = 0
    for op, value in nodes:
        if op in _REPEATS:
            total += min(value[1] * _width(list(value[2])), MAXREPEAT)
        elif op in _ONE_CHAR:
            total += 1
        elif op not in (ASSERT, ASSERT_NOT, AT):
            total += max(map(_width, _inner(op, value)), default=MAXREPEAT)
    return min(total, int(MAXREPEAT))


def _cannot_fail(node: Node) -> bool:
    op, value = node
    if op in _REPEATS:
        return bool(value[0] == 0)
    return op in (SUBPATTERN, ATOMIC_GROUP) and all(map(_cannot_fail, _inner(op, value)[0]))


def _check_no_late_failure(nodes: list[Node], *, can_fail_after: bool) -> None:
    for index, (op, value) in enumerate(nodes):
        if _width([(op, value)]) <= MAX_WIDTH:
            continue
        rest = nodes[index + 1 :]
        if can_fail_after or not all(map(_cannot_fail, rest)):
            raise NotLinear("a search may fail after an unbounded repetition")
        if op in _REPEATS:
            if value[1] == 1:
                _check_no_late_failure(list(value[2]), can_fail_after=False)
            elif _width(list(value[2])) > MAX_WIDTH:
                raise NotLinear("a search repeats an unbounded repetition")
        else:
            for inner in _inner(op, value):
                _check_no_late_failure(inner, can_fail_after=False)
        _check_no_late_failure(rest, can_fail_after=False)
        return


def unproven_reason(pattern: str | bytes, flags: int, method: str) -> str:
    """Returns why the method is not proven to be linear, or an empty string."""
    try:
        prove_linear(pattern, flags, method)
    except NotLinear as error:
        return str(error)
    except re.error as error:
        return f"it does not compile: {error}"
    return ""
