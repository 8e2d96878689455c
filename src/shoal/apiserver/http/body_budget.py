"""The budget of request bodies: how many bytes of them the process holds, in all and for each tenant.

A body counts as it arrives, and until its request is answered: while it is received, waits and is served. A tenant (a
logical cluster) may hold as much as is still free, one of its flows half of that. So one tenant alone gets half of the
budget, and there is always room for another one. A part of the budget is for small bodies alone.

A body that does not fit is refused. Before that the slowest bodies that are being received in its place are ended.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from shoal.objects.errors import StatusError, TooManyRequests

SMALL_BODY_BYTES = 16 * 1024
"""Bodies up to this size have a part of the budget for themselves."""
_SMALL_PART = 4
"""A quarter of the budget is for small bodies."""
_SLOW_AFTER_SECONDS = 2.0
_SLOW_BYTES_PER_SECOND = 16 * 1024
_SEARCH_PAUSE_SECONDS = 0.1
"""Seconds between two searches for slow bodies in one place."""

Owner = tuple[str, str]
"""The tenant and the flow of a request."""


class _Scope:
    """All bodies, those of one tenant, or those of one flow."""

    __slots__ = ("held", "receiving", "searched_at")

    def __init__(self) -> None:
        self.held = 0
        self.receiving: set[BodyHold] = set()
        self.searched_at = 0.0


class _Pool:
    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.whole = _Scope()
        self.tenants: dict[str, _Scope] = {}
        self.flows: dict[Owner, _Scope] = {}

    def scopes_of(self, owner: Owner) -> tuple[_Scope, ...]:
        tenant = self.tenants.get(owner[0])
        if tenant is None:
            tenant = self.tenants[owner[0]] = _Scope()
        flow = self.flows.get(owner)
        if flow is None:
            flow = self.flows[owner] = _Scope()
        return self.whole, tenant, flow

    def forget(self, owner: Owner) -> None:
        """Forgets scopes that hold nothing."""
        if (flow := self.flows.get(owner)) is not None and not flow.held and not flow.receiving:
            del self.flows[owner]
        if (tenant := self.tenants.get(owner[0])) is not None and not tenant.held and not tenant.receiving:
            del self.tenants[owner[0]]


class BodyBudget:
    def __init__(self, max_bytes: int, now: Callable[[], float] = monotonic) -> None:
        self.max_bytes, self.now = max_bytes, now
        self.small = _Pool(max_bytes // _SMALL_PART)
        self.large = _Pool(max_bytes - max_bytes // _SMALL_PART)
        self.rejected_total = 0
        """Bodies that were refused or ended, because there was no room."""

    @property
    def held_bytes(self) -> int:
        return self.small.whole.held + self.large.whole.held

    def hold(self, size: int, announced: int | None) -> BodyHold:
        """Counts `size` bytes of a body whose owner is not known yet. `announced` is its length, if the client has
        told it.
        """
        pool = self.small if announced is not None and announced <= SMALL_BODY_BYTES else self.large
        return BodyHold(self, pool, size)


class BodyHold:
    """One body, as the budget sees it. Implements `objects.wire.BodyHold`."""

    __slots__ = ("_budget", "_end", "_fed_at", "_owner", "_pool", "_scopes", "_started", "is_assigned", "size")

    def __init__(self, budget: BodyBudget, pool: _Pool, size: int) -> None:
        self._budget, self._pool, self.size = budget, pool, size
        self._scopes: tuple[_Scope, ...] = (pool.whole,)
        self._owner: Owner | None = None
        self._end: Callable[[], None] | None = None
        self._started = self._fed_at = 0.0
        """When reception began, and when the last bytes came."""
        self.is_assigned = False
        pool.whole.held += size

    def assign(self, owner: Owner | None) -> bool:
        """Counts the body as its owner's. Returns False if there is no room for it. None is an owner without a share:
        only the whole budget limits it.
        """
        self.is_assigned = True
        self._owner = owner
        size, self.size = self.size, 0
        self._pool.whole.held -= size
        if owner is not None:
            self._scopes = self._pool.scopes_of(owner)
        return self.grow(size)

    def start_reception(self, end: Callable[[], None]) -> None:
        """From now on the body may be ended for being slow: `end` is called, and has to release it."""
        self._end = end
        self._started = self._fed_at = self._budget.now()
        for scope in self._scopes:
            scope.receiving.add(self)

    def finish_reception(self) -> None:
        if self._end is not None:
            self._end = None
            for scope in self._scopes:
                scope.receiving.discard(self)

    def grow(self, size: int) -> bool:
        """Counts bytes that have arrived. Returns False if there is no room for them."""
        full = self._full_scope(size)
        if full is not None:
            self._end_slow_bodies(full, size)
            if self._full_scope(size) is not None:
                self._budget.rejected_total += 1
                self.release()
                return False
        self.size += size
        for scope in self._scopes:
            scope.held += size
        if self._end is not None:
            self._fed_at = self._budget.now()
        return True

    def release(self) -> None:
        self.finish_reception()
        size, self.size = self.size, 0
        for scope in self._scopes:
            scope.held -= size
        if self._owner is not None:
            self._pool.forget(self._owner)
            self._scopes, self._owner = (self._pool.whole,), None

    def _full_scope(self, size: int) -> _Scope | None:
        """The widest scope that has no room for so many bytes more."""
        pool, scopes = self._pool, self._scopes
        if self.is_assigned and len(scopes) == 1:
            return pool.whole if self._budget.held_bytes + size > self._budget.max_bytes else None
        free = pool.limit - pool.whole.held - size
        if free < 0:
            return pool.whole
        if len(scopes) > 1:
            if scopes[1].held + size > free:
                return scopes[1]
            if scopes[2].held + size > free // 2:
                return scopes[2]
        return None

    def _end_slow_bodies(self, full: _Scope, size: int) -> None:
        now = self._budget.now()
        if now - full.searched_at < _SEARCH_PAUSE_SECONDS:
            return
        full.searched_at = now
        slow = sorted(
            (each for each in full.receiving if each is not self and each._is_slow(now)),
            key=lambda each: each._fed_at,
        )
        freed = 0
        for each in slow:
            if freed >= size:
                return
            freed += each.size
            self._budget.rejected_total += 1
            end, each._end = each._end, None
            if end is not None:
                for scope in each._scopes:
                    scope.receiving.discard(each)
                end()

    def _is_slow(self, now: float) -> bool:
        seconds = now - self._started
        if seconds <= _SLOW_AFTER_SECONDS:
            return False
        return now - self._fed_at > _SLOW_AFTER_SECONDS or self.size < seconds * _SLOW_BYTES_PER_SECOND


def body_refused_error() -> StatusError:
    return TooManyRequests("too many bytes of request bodies are in flight, please try again later", retry_after=1)
