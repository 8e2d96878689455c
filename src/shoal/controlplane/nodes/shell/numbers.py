"""Integer arithmetic of a shell: `$((1 + X % 2))` and `expr 1 + 2`. Pure."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence

from shoal.controlplane.nodes.shell.syntax import Unknown

LONGEST = 200
NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})", re.ASCII)
DOLLARS = re.compile(r"\$(?:\{(\w+)\}|(\w+))", re.ASCII)


def _quotient(left: int, right: int) -> int:
    """Truncates towards zero."""
    found = abs(left) // abs(right)
    return found if (left < 0) == (right < 0) else -found


SIGNS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _quotient,
    ast.Mod: lambda left, right: left - _quotient(left, right) * right,
}


def number(text: str) -> int:
    if NUMBER.fullmatch(text) is None:
        raise Unknown(text)
    return int(text)


def arithmetic(text: str, variables: Mapping[str, str]) -> int:
    if len(text) > LONGEST:
        raise Unknown(text)
    try:
        tree = ast.parse(DOLLARS.sub(lambda found: found[1] or found[2], text).strip(), mode="eval")
        return _value(tree.body, variables)
    except (SyntaxError, ValueError, ZeroDivisionError):
        raise Unknown(text) from None


def expression(words: Sequence[str]) -> int:
    """Evaluates the arguments of `expr`, each of which is one number or operator."""
    if not all(NUMBER.fullmatch(word) or word in ("+", "-", "*", "/", "%", "(", ")") for word in words):
        raise Unknown("expr")
    return arithmetic(" ".join(words), {})


def _value(tree: ast.expr, variables: Mapping[str, str]) -> int:
    match tree:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            pass
        case ast.Name(id=name) if name in variables:
            value = number(variables[name])
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            value = -_value(operand, variables)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in SIGNS:
            value = SIGNS[type(sign)](_value(left, variables), _value(right, variables))
        case _:
            raise Unknown("arithmetic")
    if abs(value) >= 2**63:
        raise Unknown("arithmetic")
    return value
