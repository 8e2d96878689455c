"""One expression of a policy or match condition: compiled once, or its compile error."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.kinds.admissionregistration.policies.environment import VARIABLE_ORDER
from shoal.objects import cel
from shoal.objects.cel.library.mutation import JSON_PATCH_TYPE, OBJECT_TYPE
from shoal.objects.cel.types import BOOL, DYN, NULL, STRING, CELType, list_of, map_of
from shoal.objects.errors import Cause, invalid_value

BOOL_RESULT = (BOOL,)
STRING_RESULT = (STRING,)
STRING_OR_NULL_RESULT = (STRING, NULL)
APPLY_CONFIGURATION_RESULT = (OBJECT_TYPE,)
JSON_PATCH_RESULT = (list_of(JSON_PATCH_TYPE),)
ANY_RESULT: tuple[CELType, ...] = ()
_SCALAR_TYPES = frozenset({
    "bool", "bytes", "double", "int", "null_type", "string", "uint", "google.protobuf.Duration",
    "google.protobuf.Timestamp",
})  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class CELExpression:
    text: str
    program: cel.CELProgram | None = None
    error: str = ""
    is_internal_error: bool = False
    """The expression is valid, but no program can be built from it."""

    @property
    def variable_type(self) -> CELType:
        """The type other expressions see for a variable with this value."""
        return DYN if self.program is None else variable_type_of(self.program.result)


def compile_expression(text: str, environment: cel.CELEnvironment, result_types: tuple[CELType, ...]) -> CELExpression:
    try:
        program = cel.compile_in_environment(text, environment, VARIABLE_ORDER)
    except cel.InstantiationError as error:
        return CELExpression(text, error=f"program instantiation failed: {error}", is_internal_error=True)
    except cel.CELCompileError as error:
        return CELExpression(text, error=f"compilation failed: {error}")
    result_type, type_names = _type_name(program.result), [_type_name(each) for each in result_types]
    if type_names and result_type not in type_names:
        expected = type_names[0] if len(type_names) == 1 else f"one of [{' '.join(type_names)}]"
        return CELExpression(text, error=f"must evaluate to {expected} but got {result_type}")
    return CELExpression(text, program)


def compile_error_cause(path: str, value: str, expression: CELExpression) -> Cause:
    """Returns the validation cause of an expression that does not compile."""
    if expression.is_internal_error:
        return Cause("InternalError", f"{path}: Internal error: {expression.error}", path)
    return invalid_value(path, value, expression.error)


def _type_name(cel_type: CELType) -> str:
    """Returns the type name that upstream's validation messages use. It differs from CEL's own."""
    name = cel_type.name if cel_type.kind == "object" else cel_type.kind
    return f"{name}({', '.join(map(_type_name, cel_type.params))})" if cel_type.params else name


def variable_type_of(cel_type: CELType) -> CELType:
    """Returns the type other expressions see for a variable of this type: object fields are not visible."""
    if cel_type.kind in _SCALAR_TYPES:
        return cel_type
    if cel_type.kind == "list":
        return list_of(variable_type_of(cel_type.params[0]))
    return map_of(*map(variable_type_of, cel_type.params)) if cel_type.kind == "map" else DYN
