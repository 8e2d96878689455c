"""All cases, in the order in which they are sent."""

from __future__ import annotations

from collections.abc import Iterator

from tests.faults.growth.bodies import body_cases
from tests.faults.growth.builtins import builtin_cases
from tests.faults.growth.cases import Case
from tests.faults.growth.credentials import credential_cases
from tests.faults.growth.customs import custom_cases
from tests.faults.growth.patches import patch_cases
from tests.faults.growth.queries import query_cases
from tests.faults.growth.rights import right_cases


def everything() -> Iterator[Case]:
    """What is dear for its few bytes comes first."""
    yield from body_cases()
    yield from patch_cases()
    yield from query_cases()
    yield from right_cases()
    yield from credential_cases()
    yield from custom_cases()
    yield from builtin_cases()
