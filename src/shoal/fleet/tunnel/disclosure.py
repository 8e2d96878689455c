"""Who learns from the hub that a hosted cluster exists while the cluster itself does not answer.

Only a hosted cluster can verify a credential of its own. So the hub remembers which tokens hosted clusters have
accepted, as digests and in memory only. Their holders learn why there is no answer. All others get the answer that they
would get for a cluster that does not exist, which is the answer that the cluster itself would give them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Awaitable, Callable

from shoal.clock import Clock
from shoal.fleet.tunnel.paths import HostedPath
from shoal.objects.errors import StatusError, Unavailable
from shoal.objects.wire import Answer, Handler, Request, Response, StreamResponse, Upgrade

MAX_TOKENS = 16_384
STARTUP_SECONDS = 30.0
"""After its start a hub has seen no token yet, and its workers connect again within seconds."""

PublishedToken = Callable[[str, str], str]
"""Namespace and name of a ManagedCluster -> the token in the kubeconfig that the hub has of it, or empty."""


class Disclosure:
    def __init__(self, refuse: Handler, published_token: PublishedToken, clock: Clock) -> None:
        """`refuse` answers as the server of a hosted cluster that does not exist."""
        self._refuse, self._published_token, self._clock = refuse, published_token, clock
        self._started = clock.monotonic()
        self._key = os.urandom(32)
        self._accepted: set[bytes] = set()

    def observe(
        self, request: Request, target: HostedPath, answer: Answer | Awaitable[Answer]
    ) -> Answer | Awaitable[Answer]:
        """Passes the answer of the hosted cluster on, and remembers whether it has accepted the token."""
        if isinstance(answer, (Response, StreamResponse, Upgrade)):
            self._record(target, bearer_token(request), answer.status)
            return answer
        return self._await(request, target, answer)

    async def _await(self, request: Request, target: HostedPath, pending: Awaitable[Answer]) -> Answer:
        try:
            answer = await pending
        except StatusError as error:
            result = self.answer_unreachable(request, target, error)
            return result if isinstance(result, (Response, StreamResponse, Upgrade)) else await result
        self._record(target, bearer_token(request), answer.status)
        return answer

    def answer_unreachable(
        self, request: Request, target: HostedPath, error: StatusError
    ) -> Answer | Awaitable[Answer]:
        """Answers a request that did not get to its cluster. `error` is the reason."""
        token = bearer_token(request)
        if token and self._is_accepted(target, token):
            raise error
        if token and self._clock.monotonic() - self._started < STARTUP_SECONDS:
            raise Unavailable("the hub has just started and waits for its workers", retry_after=1)
        return self._refuse(request)

    def _record(self, target: HostedPath, token: str, status: int) -> None:
        if not token:
            return
        digest = self._digest(target, token)
        if status == 401:
            self._accepted.discard(digest)
        elif digest not in self._accepted:
            if len(self._accepted) >= MAX_TOKENS:
                self._accepted.clear()
            self._accepted.add(digest)

    def _is_accepted(self, target: HostedPath, token: str) -> bool:
        digest = self._digest(target, token)
        if digest in self._accepted:
            return True
        published = self._published_token(target.namespace, target.name)
        return bool(published) and digest == self._digest(target, published)

    def _digest(self, target: HostedPath, token: str) -> bytes:
        text = f"{target.namespace}/{target.name}/{token}".encode(errors="surrogateescape")
        return hashlib.blake2b(text, digest_size=16, key=self._key).digest()


def bearer_token(request: Request) -> str:
    """Returns the token of a request. An Authorization header of another kind is no credential."""
    scheme, _, token = request.headers.get("authorization", "").strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
