"""The stable address of hosted clusters, and the tunnel by which the hub reaches a worker that only dials out.

`paths` parses addresses, `registry` is the hub's side and `agent` the worker's; `frames`, `flow_control`, `connection`,
`hub_end` and `worker_end` are the protocol between them. Every interface is a `wire.Handler`.
"""

from shoal.fleet.tunnel.agent import hub_dialer, new_tunnel_agent
from shoal.fleet.tunnel.registry import TunnelRegistry, managed_cluster_route, tunnel_worker

__all__ = ["TunnelRegistry", "hub_dialer", "managed_cluster_route", "new_tunnel_agent", "tunnel_worker"]
