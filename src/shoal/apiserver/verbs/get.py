"""GET of one object."""

from __future__ import annotations

from shoal.apiserver.core import Call, Core
from shoal.apiserver.heartbeats import node_lease
from shoal.apiserver.negotiate import PROTOBUF
from shoal.apiserver.options import revision
from shoal.apiserver.render import message, one, served
from shoal.apiserver.verbs.list import too_large
from shoal.objects import protobuf
from shoal.objects.wire import Response


def get(core: Core, call: Call) -> Response:
    if call.query:
        wanted = revision(call.query.get("resourceVersion", ""))
        if wanted > core.cache.revision:
            raise too_large(wanted, core.cache.revision)
    entry = call.entry() or node_lease(core, call)
    if entry is None:
        raise call.not_found()
    view, resource = call.view, call.resource
    if view.form == PROTOBUF and view.mode == "object":
        body = protobuf.envelope(resource.api_version, resource.kind, message(resource, entry))
        return Response(200, body, content_type=PROTOBUF)
    data = served(resource, entry)
    if view.mode == "object":
        return Response(200, data)
    return one(resource, view, data, core.clock.now(), include=call.query.get("includeObject", ""))
