"""GET of one object."""

from __future__ import annotations

from shoal.apiserver.core import Call, Core
from shoal.apiserver.options import revision
from shoal.apiserver.render import one, served
from shoal.apiserver.verbs.list import too_large
from shoal.objects.wire import Response


def get(core: Core, call: Call) -> Response:
    if call.query:
        wanted = revision(call.query.get("resourceVersion", ""))
        if wanted > core.cache.revision:
            raise too_large(wanted, core.cache.revision)
    entry = call.found()
    data = served(call.resource, entry)
    return one(call.resource, call.view, data, core.clock.now(), include=call.query.get("includeObject", ""))
