"""HTTP/1.1 over TLS for `objects.wire` handlers, on asyncio protocols and httptools.

`reading` turns bytes into requests, `connection` answers them in order, `sink` is the writing end of a
stream, `encoding` makes heads and bodies, `server` listens and ends it all. No Kubernetes meaning in here
but the `v1.Status` body of refused requests.
"""

from shoal.apiserver.http.encoding import encode_gzip, status_response
from shoal.apiserver.http.limits import Limits
from shoal.apiserver.http.server import HttpServer

__all__ = ["HttpServer", "Limits", "encode_gzip", "status_response"]
