"""The `authorizer` variable of CEL expressions: asks the server's authorizer about the user or a ServiceAccount."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from shoal.apiserver.authn.authenticator import SERVICE_ACCOUNT_PREFIX, User, service_account_groups
from shoal.apiserver.authz import Attributes, Authorizer

if TYPE_CHECKING:
    from shoal.objects.cel.library.authz import AuthzCheck, AuthzDecision


def cel_authorizer(authorizer: Authorizer, user: User, cluster: str) -> Callable[[AuthzCheck], AuthzDecision]:
    # CEL is imported only for requests that a policy or match condition evaluates.
    from shoal.objects.cel.library.authz import AuthzDecision  # noqa: PLC0415

    def check(wish: AuthzCheck) -> AuthzDecision:
        subject = user
        if wish.account is not None:
            namespace, name = wish.account
            subject = User(
                f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}", service_account_groups(namespace), cluster=cluster
            )
        if wish.path:
            attributes = Attributes(cluster, wish.verb, path=wish.path)
        else:
            attributes = Attributes(
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
        decision = authorizer.authorize(subject, attributes)
        return AuthzDecision(decision.allowed, decision.reason)

    return check
