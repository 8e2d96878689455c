"""PUT of namespaces/NAME/finalize: the only way to change a namespace's finalizers."""

from __future__ import annotations

from typing import Any

import orjson

from shoal.apiserver.core import Call, Core
from shoal.apiserver.options import write_options
from shoal.apiserver.verbs.update import change
from shoal.apiserver.writing import check_type, member, read_body
from shoal.objects.errors import BadRequest
from shoal.objects.wire import Response

Object = dict[str, Any]


async def finalize(core: Core, call: Call) -> Response:
    options = write_options(call.query, "UpdateOptions")
    body = read_body(call.request)
    check_type(call, body)
    wanted = member(body, "spec").get("finalizers") or []
    if not isinstance(wanted, list) or not all(isinstance(each, str) for each in wanted):
        raise BadRequest("json: cannot unmarshal into Go struct field NamespaceSpec.spec.finalizers of type []string")

    def make(old: Object) -> Object:
        new: Object = orjson.loads(orjson.dumps(old))
        new["spec"] = {"finalizers": wanted} if wanted else {}
        given = body["metadata"].get("resourceVersion")
        if given:
            new["metadata"]["resourceVersion"] = given
        return new

    return await change(core, call, options, make)
