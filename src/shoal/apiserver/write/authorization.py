"""The verb `create` of an object that begins to exist by another verb than POST to its collection.

The filter `authorize` has asked for the verb of the request only: `update` for a PUT, `patch` for an apply.
"""

from __future__ import annotations

from collections.abc import Awaitable

from shoal.apiserver.admission.chain import admit
from shoal.apiserver.authz import Attributes, forbidden
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.apiserver.write.attempt import Write
from shoal.apiserver.write.heavy import run_validation
from shoal.objects.errors import Forbidden


def authorize_creation(write: Write) -> Awaitable[None] | None:
    """A step of the pipeline. Validating webhooks see only what the user may create.

    As upstream, an object that is invalid is refused as invalid, whoever sends it. It is complete after admission, so
    admission comes before the answer too; who may not create does not learn what else would forbid it.
    """
    if write.old is not None or not write.plan.updates:
        return None
    try:
        require_create(write.server, write.ctx)
    except Forbidden as refusal:
        try:
            admit(write.server, write.ctx, write.new, None)
        except Forbidden:
            raise refusal from None
        return _refuse_valid(write, refusal)
    return None


async def _refuse_valid(write: Write, refusal: Forbidden) -> None:
    validation = run_validation(write)
    if validation is not None:
        await validation
    raise refusal


def require_create(server: ServerComponents, ctx: RequestContext) -> None:
    """Raises Forbidden if the user may not create the object that the context names."""
    info = ctx.info
    attributes = Attributes(
        info.cluster, "create", info.group, info.version, info.plural, namespace=info.namespace, name=info.name
    )
    decision = server.authorizer.authorize(ctx.user, attributes)
    if not decision.allowed:
        raise forbidden(ctx.user, attributes, decision.reason)
