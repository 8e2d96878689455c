"""LIST as a digest, for a client that already holds the objects of an earlier time.

The client sends its digest (`digest`, see `objects.digest`) and gets the keys and revisions in those buckets that
differ: none if nothing has changed. Selectors and authorization apply as for any list.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from shoal.apiserver.cache.cacher import CachedObject
from shoal.objects import digest
from shoal.objects.errors import BadRequest
from shoal.objects.wire import Response

DIGEST_PARAMETER = "digest"


def digest_response(client_digest: str, entries: Sequence[CachedObject], revision: int) -> Response:
    try:
        client_sums = digest.decode(client_digest)
    except ValueError as error:
        raise BadRequest(f"{DIGEST_PARAMETER} is not one: {error}") from None
    revisions = [(entry.key, entry.revision) for entry in entries]
    buckets = len(client_sums)
    differing = digest.differing_buckets(digest.bucket_sums(revisions, buckets), client_sums)
    differing_set = set(differing)
    items = {key: str(written) for key, written in revisions if digest.bucket_of(key, buckets) in differing_set}
    body = {
        "kind": "Digest",
        "apiVersion": "meta.shoal.dev/v1alpha1",
        "metadata": {"resourceVersion": str(revision)},
        "count": len(revisions),
        "buckets": differing,
        "items": items,
    }
    return Response(200, orjson.dumps(body))
