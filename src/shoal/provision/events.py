"""Sources and subjects of the Events that the provisioner records."""

from __future__ import annotations

from shoal.kinds.karpenter.karpenter import API_VERSION, NODE_CLAIM
from shoal.runtime.event_recorder import EventSource

_KARPENTER, _INSTANCE = "karpenter", "karpenter-shoal"

NODE_CLAIM_EVENTS = EventSource(_KARPENTER, API_VERSION, NODE_CLAIM, _INSTANCE)
NODE_EVENTS = EventSource(_KARPENTER, "v1", "Node", _INSTANCE)
POD_EVENTS = EventSource(_KARPENTER, "v1", "Pod", _INSTANCE)
