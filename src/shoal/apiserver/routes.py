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
class PassthroughRoute:
    handler: Handler


@dataclass(frozen=True, slots=True)
class AuthorizedRoute:
    handler: Callable[[Request], Answer]
    attributes_of: Callable[[str], Attributes]
    """Returns the permission required for a path. Raises NotFound for an unknown path."""


ExtraRoute = PassthroughRoute | AuthorizedRoute


class ExtraRoutes:
    def __init__(self, routes: Mapping[str, ExtraRoute] | None = None) -> None:
        self._routes = dict(routes or {})
        self.passthrough_prefixes = tuple(
            f"/{name}/" for name, route in self._routes.items() if isinstance(route, PassthroughRoute)
        )
        """Path prefixes of passthrough routes."""

    @property
    def names(self) -> frozenset[str]:
        """The first path segments of all routes."""
        return frozenset(self._routes)

    def passthrough_handler(self, path: str) -> tuple[str, Handler]:
        """Name and handler of the passthrough route of a path."""
        name = _first_segment(path)
        return name, self._routes[name].handler

    def authorized_route(self, path: str) -> AuthorizedRoute | None:
        route = self._routes.get(_first_segment(path))
        return route if isinstance(route, AuthorizedRoute) else None


def _first_segment(path: str) -> str:
    return path[1:].partition("/")[0]
