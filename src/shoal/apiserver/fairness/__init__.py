"""Who is served next when more is asked than can be done: priority and fairness, as Kubernetes' objects say it.

`flows` tells whose request it is, `order` who is next, `dispatcher` holds back what has to wait.
"""

from shoal.apiserver.fairness.dispatcher import Dispatcher, DispatchSettings
from shoal.apiserver.fairness.flows import Flow, Flows

__all__ = ["DispatchSettings", "Dispatcher", "Flow", "Flows"]
