"""The `authorizer` variable of CEL expressions: asks the server's authorizer about the user or a ServiceAccount."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from shoal.apiserver.authn import SERVICE_ACCOUNT_PREFIX, User, service_account_groups
from shoal.apiserver.authz import Attributes, Authorizer

if TYPE_CHECKING:
    from shoal.objects.cel.library.authz import Decided, Wish


def asking(authorizer: Authorizer, user: User, cluster: str) -> Callable[[Wish], Decided]:
    # CEL is imported only for requests that a policy or match condition evaluates.
    from shoal.objects.cel.library.authz import Decided  # noqa: PLC0415

    def ask(wish: Wish) -> Decided:
        who = user
        if wish.account is not None:
            namespace, name = wish.account
            who = User(
                f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}", service_account_groups(namespace), cluster=cluster
            )
        if wish.path:
            wanted = Attributes(cluster, wish.verb, path=wish.path)
        else:
            wanted = Attributes(
                cluster,
                wish.verb,
                group=wish.group,
                version="*",
                resource=wish.resource,
                subresource=wish.subresource,
                namespace=wish.namespace,
                name=wish.name,
                fields=wish.fields,
                labels=wish.labels,
            )
        said = authorizer.authorize(who, wanted)
        return Decided(said.allowed, said.reason)

    return ask
