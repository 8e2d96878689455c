"""Bootstrap tokens of root: `<id>.<secret>`, valid while its Secret in kube-system exists and has not expired."""

from __future__ import annotations

import hmac
from collections.abc import Callable

from shoal.apiserver.authn import User
from shoal.apiserver.cache import Cache
from shoal.apiserver.paths import ROOT
from shoal.kinds import joining


class BootstrapTokens:
    def __init__(self, cache: Cache, now: Callable[[], float]) -> None:
        self._secrets, self._now = cache.kind("", "secrets"), now

    def user(self, token: str) -> User | None:
        """Returns the user of the token, or None if it is not a valid bootstrap token."""
        parts = joining.split_token(token)
        if parts is None:
            return None
        entry = self._secrets.get(ROOT, joining.TOKEN_NAMESPACE, joining.secret_name(parts[0]))
        known = joining.read_token(entry.object()) if entry is not None else None
        if known is None or not hmac.compare_digest(known.secret, parts[1]):
            return None
        if not known.authenticates or known.has_expired(self._now()):
            return None
        return User(joining.BOOTSTRAP_PREFIX + known.id, known.groups, cluster=ROOT)
