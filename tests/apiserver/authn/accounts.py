"""Service accounts, a signer with its key, and a clock, for tests of tokens."""

from __future__ import annotations

from functools import cache

from shoal.apiserver.authn.authenticator import ServiceAccountTokenAuthenticator
from shoal.apiserver.authn.es256 import generate_secret
from shoal.apiserver.authn.serviceaccount_token import TokenSigner
from shoal.clock import FakeClock

BOT = {"metadata": {"namespace": "ci", "name": "bot", "uid": "uid-of-bot"}}


@cache
def new_key(number: int | str) -> bytes:
    """Keys by number or name: the same one is the same key."""
    return generate_secret()


def key_of(cluster: str) -> tuple[bytes]:
    """Every cluster has a key of its own; that of root has number 0."""
    return (new_key(0 if cluster == "root" else cluster),)


def issuer(cluster: str) -> str:
    return f"https://shoal/clusters/{cluster}"


class Accounts:
    """A clock, a signer, and which objects exist: (cluster, resource, namespace, name) -> uid."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.signer = TokenSigner(key_of, issuer)
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
