"""The transport interface to an API server. `https` implements it over HTTPS, `apiserver.inprocess` in process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from shoal.objects.errors import ShoalError

if TYPE_CHECKING:  # keeps the help of commands that talk to a hub from loading ssl
    import ssl


class Unreachable(ShoalError):
    """The server did not answer at all."""


def check_cancelled(error: BaseException) -> None:
    """Raises Unreachable for a CancelledError if the current task was not asked to end: another task has cancelled what
    this one awaits. A task that ends with a CancelledError counts as stopped, and nobody starts it again.
    """
    import asyncio  # noqa: PLC0415

    if isinstance(error, asyncio.CancelledError) and not is_task_cancelled():
        raise Unreachable("the request was cancelled") from error


def is_task_cancelled() -> bool:
    """Whether the current task was asked to end."""
    import asyncio  # noqa: PLC0415

    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def is_certificate_error(error: Unreachable) -> bool:
    """Reports whether the server presented a certificate that the expected CA did not sign."""
    return "CERTIFICATE_VERIFY_FAILED" in str(error.__cause__)


@dataclass(frozen=True, slots=True)
class RESTConfig:
    """Server address, TLS settings and credentials: client-go's rest.Config."""

    server: str
    tls_context: ssl.SSLContext
    token: str
    ca_pem: str = ""
    """CA certificate as PEM. Empty: the system's CAs."""
    server_name: str = ""
    """The name in the server's certificate. Empty: the host that is dialled."""


class Transport(Protocol):
    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]: ...

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str]
    ) -> tuple[int, AsyncIterator[bytes]]:
        """Returns the status, then the body as it arrives. The iterator must be closed."""

    async def close(self) -> None: ...
