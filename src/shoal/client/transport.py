"""How bytes get to an API server and back: the seam. HTTPS is in `https`, in-process in `apiserver.inprocess`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from shoal.objects.errors import ShoalError

if TYPE_CHECKING:  # help of commands that ask a hub needs none
    import ssl


class Unreachable(ShoalError):
    """The server did not answer at all."""


def distrusts(error: Unreachable) -> bool:
    """Whether a server answered, whose certificate is not by the authority it was to be by."""
    return "CERTIFICATE_VERIFY_FAILED" in str(error.__cause__)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a server is, whom to trust there, and who one is."""

    server: str
    tls: ssl.SSLContext
    token: str
    authority: str = ""
    """The certificate it is trusted by, as PEM; empty: the system's."""


class Transport(Protocol):
    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]: ...

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str]
    ) -> tuple[int, AsyncIterator[bytes]]:
        """The status, then the body as it comes. The iterator must be closed."""

    async def close(self) -> None: ...
