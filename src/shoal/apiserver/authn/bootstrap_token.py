"""Bootstrap tokens of root: `<id>.<secret>`, valid while its Secret in kube-system exists and has not expired."""

from __future__ import annotations

import hmac
from collections.abc import Callable

from shoal.apiserver.authn.authenticator import User
from shoal.apiserver.cache.cacher import WatchCache
from shoal.apiserver.request.info import ROOT
from shoal.kinds.fleet import worker_join


class BootstrapTokens:
    def __init__(self, cache: WatchCache, now: Callable[[], float]) -> None:
        self._secrets, self._now = cache.resource_cache("", "secrets"), now

    def user(self, token: str) -> User | None:
        """Returns the user of the token, or None if it is not a valid bootstrap token."""
        parts = worker_join.parse_token(token)
        if parts is None:
            return None
        entry = self._secrets.get(ROOT, worker_join.TOKEN_NAMESPACE, worker_join.secret_name(parts[0]))
        token_secret = worker_join.token_from_secret(entry.object()) if entry is not None else None
        if token_secret is None or not hmac.compare_digest(token_secret.secret, parts[1]):
            return None
        if not token_secret.allows_authentication or token_secret.is_expired(self._now()):
            return None
        return User(worker_join.BOOTSTRAP_USER_PREFIX + token_secret.id, token_secret.groups, cluster=ROOT)
