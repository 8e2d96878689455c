"""API priority and fairness: the order of requests under load, configured by FlowSchemas and
PriorityLevelConfigurations.

`classifier` and `flowschema` assign a request to a flow, `fairqueue` decides which flow is next, `seats` limits
concurrent writes, `dispatcher` queues requests and starts them.
"""

from shoal.apiserver.fairness.dispatcher import Dispatcher, DispatchSettings
from shoal.apiserver.fairness.flows import Flow, Flows

__all__ = ["DispatchSettings", "Dispatcher", "Flow", "Flows"]
