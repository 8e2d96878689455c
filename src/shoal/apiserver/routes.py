"""Routes beside the Kubernetes API, by their first path segment.

A passthrough route gets its requests unread; the server that finally answers them authenticates. An authorized route
gets only requests of users with the permission its path stands for. `assemble` decides what is behind a route.
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
    """Returns the permission required for a path. Raises NotFound for an unknown path."""


Route = OpenRoute | GuardedRoute


class Routes:
    def __init__(self, routes: Mapping[str, Route]) -> None:
        self._routes = dict(routes)
        self.prefixes = tuple(f"/{name}/" for name, route in routes.items() if isinstance(route, OpenRoute))
        """Path prefixes of passthrough routes."""

    def opened(self, path: str) -> tuple[str, Handler]:
        """Name and handler of the passthrough route of a path."""
        name = _first(path)
        return name, self._routes[name].handler

    def guarded(self, path: str) -> GuardedRoute | None:
        route = self._routes.get(_first(path))
        return route if isinstance(route, GuardedRoute) else None


def _first(path: str) -> str:
    return path[1:].partition("/")[0]
