"""The stable address of hosted clusters, and the tunnel by which the hub reaches a worker that only dials out.

`paths` parses addresses, `registry` is the hub's side and `agent` the worker's; `frames`, `flow_control`, `connection`,
`hub_end` and `worker_end` are the protocol between them. Every interface is a `wire.Handler`.
"""

from shoal.fleet.tunnel.serving import dial_hub, serve_tunnel
from shoal.fleet.tunnel.tunnels import Tunnels, managed_cluster_route, tunnel_worker

__all__ = ["Tunnels", "dial_hub", "managed_cluster_route", "serve_tunnel", "tunnel_worker"]
