"""Settings of the bus between a hub and its workers. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

SCHEMES = ("nats", "tls")


@dataclass(frozen=True, slots=True)
class BusSettings:
    servers: tuple[str, ...] = field(default=(), repr=False)
    """URLs of NATS servers, which may hold a password; none: the watch of the hub's API."""
    credentials: Path | None = None
    """A NATS .creds file."""

    @property
    def is_nats(self) -> bool:
        return bool(self.servers)


def bus_settings(text: str, credentials: Path | None) -> BusSettings:
    """Parses `watch`, or comma-separated URLs. Raises ValueError with the reason."""
    if text == "watch":
        if credentials is not None:
            raise ValueError("--bus-creds requires --bus nats://HOST:PORT")
        return BusSettings()
    servers = tuple(each.strip() for each in text.split(","))
    if not all(map(_is_server, servers)):
        # The value is not repeated: it may contain a password.
        raise ValueError("--bus must be watch, or URLs of NATS servers such as nats://10.0.0.1:4222 or tls://bus:4222")
    return BusSettings(servers, credentials)


def _is_server(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in SCHEMES and bool(parts.hostname) and parts.port != 0 and parts.path in ("", "/")
    except ValueError:
        return False
