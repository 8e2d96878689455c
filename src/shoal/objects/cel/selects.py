"""Field access: `a.b`, `has(a.b)`, `a.?b`, on objects and maps."""

from __future__ import annotations

from shoal.objects.cel.errors import CelError, no_overload
from shoal.objects.cel.escaping import unescaped
from shoal.objects.cel.steps import COST, Frame, Run
from shoal.objects.cel.values import NONE, Lazy, Optional, Value


def select(operand: Run, key: str, known: bool, escapes: bool = True) -> Run:
    """`is_typed`: the operand's type is known, and with it the wire name of the field; a null field counts as absent.
    `unescape_fields`: for untyped operands, the name may be the escaped form of another.
    """
    other = (unescaped(key) or key) if escapes and not known else key

    def run(frame: Frame) -> Value:
        held = operand(frame)
        if held.__class__ is dict:
            if key in held:
                value = held[key]
                if value is not None or not known:
                    return value
            elif other in held:
                return held[other]
        elif held.__class__ is Lazy:
            return held.read(key)
        raise CelError(f"no such key: {key}")

    return run


def presence(operand: Run, key: str, known: bool, escapes: bool = True) -> Run:
    other = (unescaped(key) or key) if escapes and not known else key

    def run(frame: Frame) -> Value:
        held = operand(frame)
        if held.__class__ is Optional:
            if not held.present:
                return False
            held = held.value
        if held.__class__ is not dict:
            if held.__class__ is Lazy:
                return True
            raise no_overload()
        if known:
            return held.get(key) is not None
        return key in held or other in held

    return run


def optional_select(operand: Run, key: str, known: bool, escapes: bool = True) -> Run:
    other = (unescaped(key) or key) if escapes and not known else key

    def run(frame: Frame) -> Value:
        held = operand(frame)
        if held.__class__ is Optional:
            if not held.present:
                return NONE
            held = held.value
        if held.__class__ is not dict:
            if held.__class__ is Lazy:
                return Optional(held.read(key))
            raise no_overload()
        found = key if key in held else other
        if found not in held or (known and held[found] is None):
            return NONE
        frame[COST] += 1
        return Optional(held[found])

    return run
