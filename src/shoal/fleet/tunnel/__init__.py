"""The stable address of hosted clusters, and the tunnel by which a worker that only dials out is reached.

`paths` reads addresses, `tunnels` is the hub's side and `serving` the worker's; `frames`, `flow`, `link`, `hub` and
`worker` are the protocol between them. Every seam is a `wire.Handler`.
"""

from shoal.fleet.tunnel.serving import dial_hub, serve_tunnel
from shoal.fleet.tunnel.tunnels import Tunnels, managed_cluster_route, tunnel_worker

__all__ = ["Tunnels", "dial_hub", "managed_cluster_route", "serve_tunnel", "tunnel_worker"]
