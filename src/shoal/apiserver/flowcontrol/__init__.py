"""API priority and fairness: the order of requests under load, configured by FlowSchemas and
PriorityLevelConfigurations.

`flowschema` assigns a request to a flow, `fairqueue` decides which flow is next, `seats` limits
concurrent writes, `dispatcher` queues requests and starts them.
"""

from shoal.apiserver.flowcontrol.dispatcher import DispatcherConfig, RequestDispatcher
from shoal.apiserver.flowcontrol.flowschema import Flow, FlowSchemas

__all__ = ["DispatcherConfig", "Flow", "FlowSchemas", "RequestDispatcher"]
