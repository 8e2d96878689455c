"""Service accounts, a signer with its key, and a clock, for tests of tokens."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from shoal.apiserver.authn.authenticator import ServiceAccountTokenAuthenticator
from shoal.apiserver.authn.serviceaccount_token import TokenSigner, load_or_create_key
from shoal.clock import FakeClock

BOT = {"metadata": {"namespace": "ci", "name": "bot", "uid": "uid-of-bot"}}


@cache
def new_key(number: int) -> bytes:
    """Keys by number: the same number is the same key."""
    with TemporaryDirectory() as folder:
        return load_or_create_key(Path(folder) / f"key-{number}.pem")


class Accounts:
    """A clock, a signer, and which objects exist: (cluster, resource, namespace, name) -> uid."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.signer = TokenSigner(new_key(0))
        self.existing = {
            (cluster, "serviceaccounts", "ci", "bot"): "uid-of-bot" for cluster in ("root", "blue", "green")
        }
        self.lookups = 0
        self.tokens = ServiceAccountTokenAuthenticator(self.signer, self.lookup, self.clock.now)

    def lookup(self, cluster: str, resource: str, namespace: str, name: str) -> str | None:
        self.lookups += 1
        return self.existing.get((cluster, resource, namespace, name))

    def token(
        self,
        cluster: str = "root",
        audiences: tuple[str, ...] = (),
        seconds: int = 3600,
        **bound: tuple[str, str],
    ) -> str:
        return self.signer.issue(cluster, BOT, audiences, seconds, bound, self.clock.now())[0]
