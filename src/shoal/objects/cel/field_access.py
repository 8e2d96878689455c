"""Field access: `a.b`, `has(a.b)`, `a.?b`, on objects and maps."""

from __future__ import annotations

from shoal.objects.cel.errors import CELError, no_overload
from shoal.objects.cel.escaping import unescape
from shoal.objects.cel.interpretable import COST, EvalFrame, EvalFunc
from shoal.objects.cel.values import OPTIONAL_NONE, LazyVariables, OptionalValue, Value


def eval_select(operand: EvalFunc, key: str, is_typed: bool, unescape_fields: bool = True) -> EvalFunc:
    """`is_typed`: the operand's type is known, and with it the wire name of the field; a null field counts as absent.
    `unescape_fields`: for untyped operands, the name may be the escaped form of another.
    """
    unescaped_key = (unescape(key) or key) if unescape_fields and not is_typed else key

    def run(frame: EvalFrame) -> Value:
        container = operand(frame)
        if container.__class__ is dict:
            if key in container:
                value = container[key]
                if value is not None or not is_typed:
                    return value
            elif unescaped_key in container:
                return container[unescaped_key]
        elif container.__class__ is LazyVariables:
            return container.read(key)
        raise CELError(f"no such key: {key}")

    return run


def eval_has(operand: EvalFunc, key: str, is_typed: bool, unescape_fields: bool = True) -> EvalFunc:
    unescaped_key = (unescape(key) or key) if unescape_fields and not is_typed else key

    def run(frame: EvalFrame) -> Value:
        container = operand(frame)
        if container.__class__ is OptionalValue:
            if not container.present:
                return False
            container = container.value
        if container.__class__ is not dict:
            if container.__class__ is LazyVariables:
                return True
            raise no_overload()
        if is_typed:
            return container.get(key) is not None
        return key in container or unescaped_key in container

    return run


def eval_optional_select(operand: EvalFunc, key: str, is_typed: bool, unescape_fields: bool = True) -> EvalFunc:
    unescaped_key = (unescape(key) or key) if unescape_fields and not is_typed else key

    def run(frame: EvalFrame) -> Value:
        container = operand(frame)
        if container.__class__ is OptionalValue:
            if not container.present:
                return OPTIONAL_NONE
            container = container.value
        if container.__class__ is not dict:
            if container.__class__ is LazyVariables:
                return OptionalValue(container.read(key))
            raise no_overload()
        found_key = key if key in container else unescaped_key
        if found_key not in container or (is_typed and container[found_key] is None):
            return OPTIONAL_NONE
        frame[COST] += 1
        return OptionalValue(container[found_key])

    return run
