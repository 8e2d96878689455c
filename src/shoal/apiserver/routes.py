"""Paths beside the Kubernetes API that something else answers, by their first segment.

An open route gets its requests as they come: whoever answers them at last authenticates them. A guarded one gets
those of users who may do what its path stands for. What is behind a route is the composition's business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from shoal.apiserver.authz import Attributes
from shoal.objects.wire import Answer, Handler, Request


@dataclass(frozen=True, slots=True)
class OpenRoute:
    handler: Handler


@dataclass(frozen=True, slots=True)
class GuardedRoute:
    handler: Callable[[Request], Answer]
    wanted: Callable[[str], Attributes]
    """What the user must be allowed to do for this path; raises NotFound for paths there are none of."""


Route = OpenRoute | GuardedRoute


class Routes:
    def __init__(self, routes: Mapping[str, Route]) -> None:
        self._routes = dict(routes)
        self.prefixes = tuple(f"/{name}/" for name, route in routes.items() if isinstance(route, OpenRoute))
        """How paths of open routes begin."""

    def opened(self, path: str) -> tuple[str, Handler]:
        """The name and the handler of the open route of a path."""
        name = _first(path)
        return name, self._routes[name].handler

    def guarded(self, path: str) -> GuardedRoute | None:
        route = self._routes.get(_first(path))
        return route if isinstance(route, GuardedRoute) else None


def _first(path: str) -> str:
    return path[1:].partition("/")[0]
