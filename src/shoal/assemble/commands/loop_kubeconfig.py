"""The kubeconfig with which `shoal controllers` runs loops of a hub: the tokens of their ServiceAccounts.

Each loop has a context and a user of the name of its account. A token is valid until its Secret is deleted, or until
the hub runs the loop itself again, which deletes the account.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterable
from typing import Any

from shoal.assemble.commands.controllers import LoopsInside, hub_settings
from shoal.client.rest import Client, GroupVersionResource
from shoal.kinds.rbac.controller_accounts import NAMESPACE
from shoal.kinds.rbac.loop_accounts import account_of
from shoal.objects.errors import ShoalError

Object = dict[str, Any]

SECRETS = GroupVersionResource("", "v1", "secrets")
FIELD_MANAGER = "shoal-kubeconfig"
TOKEN_TIMEOUT_SECONDS, POLL_SECONDS = 30.0, 0.05


async def loop_tokens(hub: Client, loops: Iterable[str]) -> dict[str, str]:
    """Returns a token for the account of each loop, by account."""
    settings = await hub_settings(hub)
    inside = [name for name in loops if settings is None or name not in settings.outside]
    if inside:
        raise LoopsInside(inside)
    return {account_of(name): await _token(hub, account_of(name)) for name in loops}


async def _token(hub: Client, account: str) -> str:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": f"{account}-token",
            "namespace": NAMESPACE,
            "annotations": {"kubernetes.io/service-account.name": account},
        },
        "type": "kubernetes.io/service-account-token",
    }
    try:
        async with asyncio.timeout(TOKEN_TIMEOUT_SECONDS):
            while True:
                data = (await hub.apply(SECRETS, secret, FIELD_MANAGER)).get("data") or {}
                if data.get("token"):
                    return base64.b64decode(data["token"]).decode()
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise ShoalError(f"the hub has not created a token for {NAMESPACE}/{account}") from None


def loop_kubeconfig(server: str, ca_pem: str, tokens: dict[str, str]) -> Object:
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(ca_pem.encode()).decode()}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "hub", "cluster": cluster}],
        "contexts": [{"name": account, "context": {"cluster": "hub", "user": account}} for account in tokens],
        "current-context": next(iter(tokens)),
        "users": [{"name": account, "user": {"token": token}} for account, token in tokens.items()],
    }
