"""HTTP/1.1 over TLS for `objects.wire` handlers, on asyncio protocols and httptools.

`parser` turns bytes into requests. `connection` answers them in order. `sink` is the writing end of a stream.
`encoding` builds heads and bodies. `listener` accepts connections. `server` owns the connections and closes them.
`virtual_host` serves connections that were accepted elsewhere.
Nothing here knows Kubernetes except the `v1.Status` body of rejected requests.
"""

from shoal.apiserver.http.encoding import encode_gzip, status_response
from shoal.apiserver.http.limits import HTTPLimits
from shoal.apiserver.http.server import HTTPServer

__all__ = ["HTTPLimits", "HTTPServer", "encode_gzip", "status_response"]
