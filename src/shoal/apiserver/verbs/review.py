"""POST of a review of access or identity. It is answered and not stored."""

from __future__ import annotations

import orjson

from shoal.apiserver.core import Call, Core
from shoal.apiserver.negotiate import no_transform
from shoal.apiserver.options import write_options
from shoal.apiserver.reviews import answer
from shoal.apiserver.writing import check_fields, check_type, read_body
from shoal.objects.wire import Response


def review(core: Core, call: Call) -> Response:
    no_transform(call.view)
    options = write_options(call.query, "CreateOptions")
    obj = read_body(call.request)
    check_type(call, obj)
    check_fields(call, options, obj, call.request.body)
    said = answer(
        call.resource.kind,
        obj,
        user=call.user,
        cluster=call.target.cluster,
        namespace=call.namespace,
        authorizer=core.authorizer,
        authenticator=core.authenticator,
        now=core.clock.now(),
    )
    return Response(201, orjson.dumps(said))
