"""Integer arithmetic of a shell: `$((1 + X % 2))` and `expr 1 + 2`. Pure."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence

from shoal.controlplane.kubelet.shell.parser import UnknownOutcome

MAX_LENGTH = 200
match_number = re.compile(r"-?(0|[1-9]\d{0,17})", re.ASCII).fullmatch
replace_variables = re.compile(r"\$(?:\{(\w+)(\})?|(\w+))", re.ASCII).sub


def _quotient(left: int, right: int) -> int:
    """Truncates towards zero."""
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _quotient,
    ast.Mod: lambda left, right: left - _quotient(left, right) * right,
}


def parse_number(text: str) -> int:
    if match_number(text) is None:
        raise UnknownOutcome(text)
    return int(text)


def _variable_name(found: re.Match[str]) -> str:
    is_open = found[1] is not None and found[2] is None
    return found[0] if is_open else found[1] or found[3]


def evaluate(text: str, variables: Mapping[str, str]) -> int:
    if len(text) > MAX_LENGTH:
        raise UnknownOutcome(text)
    try:
        tree = ast.parse(replace_variables(_variable_name, text).strip(), mode="eval")
        return _evaluate_node(tree.body, variables)
    except (SyntaxError, ValueError, ZeroDivisionError):
        raise UnknownOutcome(text) from None


def evaluate_expr(words: Sequence[str]) -> int:
    """Evaluates the arguments of `expr`, each of which is one number or operator."""
    if not all(match_number(word) or word in ("+", "-", "*", "/", "%", "(", ")") for word in words):
        raise UnknownOutcome("expr")
    return evaluate(" ".join(words), {})


def _evaluate_node(tree: ast.expr, variables: Mapping[str, str]) -> int:
    match tree:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            pass
        case ast.Name(id=name) if name in variables:
            value = parse_number(variables[name])
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            value = -_evaluate_node(operand, variables)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in OPERATORS:
            value = OPERATORS[type(sign)](_evaluate_node(left, variables), _evaluate_node(right, variables))
        case _:
            raise UnknownOutcome("arithmetic")
    if abs(value) >= 2**63:
        raise UnknownOutcome("arithmetic")
    return value
