"""All functions an expression may call, by name, in the order the checker tries them."""

from __future__ import annotations

from shoal.objects.cel.library import (
    arithmetic,
    authz,
    conversions,
    formats,
    lists,
    net,
    optionals,
    quantities,
    strings,
    times,
    urls,
)
from shoal.objects.cel.overloads import Overload

_LIBRARIES = (
    arithmetic, conversions, times, strings, lists, optionals, urls, net, quantities, formats, authz,
)  # fmt: skip


def _overloads_by_name() -> dict[str, list[Overload]]:
    overloads: dict[str, list[Overload]] = {}
    for library in _LIBRARIES:
        for overload in library.OVERLOADS:
            overloads.setdefault(overload.name, []).append(overload)
    return overloads


FUNCTIONS = _overloads_by_name()
