"""LIST as a digest, for a client that already holds the objects of an earlier time.

The client sends its digest (`digest`, see `objects.digest`) and gets the keys and revisions in those buckets that
differ: none if nothing has changed. Selectors and authorization apply as for any list.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from shoal.apiserver.cache import Entry
from shoal.objects import digest
from shoal.objects.errors import BadRequest
from shoal.objects.wire import Response

QUERY = "digest"


def answer(asked: str, entries: Sequence[Entry], revision: int) -> Response:
    try:
        theirs = digest.decode(asked)
    except ValueError as error:
        raise BadRequest(f"{QUERY} is not one: {error}") from None
    held = [(entry.key, entry.revision) for entry in entries]
    buckets = len(theirs)
    different = digest.differing(digest.sums(held, buckets), theirs)
    looked_at = set(different)
    items = {key: str(written) for key, written in held if digest.bucket_of(key, buckets) in looked_at}
    found = {
        "kind": "Digest",
        "apiVersion": "meta.shoal.dev/v1alpha1",
        "metadata": {"resourceVersion": str(revision)},
        "count": len(held),
        "buckets": different,
        "items": items,
    }
    return Response(200, orjson.dumps(found))
