"""The environment of an expression: variables with their types, functions, and constructible types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from shoal.objects.cel.functions import FUNCTIONS
from shoal.objects.cel.overloads import Overload
from shoal.objects.cel.types import CELType


def _no_struct(name: str) -> CELType | None:
    return None


@dataclass(frozen=True, slots=True, eq=False)
class CELEnvironment:
    variables: Mapping[str, CELType]
    """A name may contain dots: `authorizer.requestResource`."""
    resolve_struct: Callable[[str], CELType | None] = _no_struct
    """Returns the type of `Name` in `Name{field: value}`."""
    functions: Mapping[str, Sequence[Overload]] = field(default_factory=lambda: FUNCTIONS)
    unescape_fields: bool = True
    """Fields of untyped values are also found by their escaped names."""
