"""Sources and subjects of the Events that the provisioner records."""

from __future__ import annotations

from shoal.kinds.karpenter import API_VERSION, NODE_CLAIM
from shoal.runtime.recorder import Source

_KARPENTER, _INSTANCE = "karpenter", "karpenter-shoal"

ABOUT_CLAIMS = Source(_KARPENTER, API_VERSION, NODE_CLAIM, _INSTANCE)
ABOUT_NODES = Source(_KARPENTER, "v1", "Node", _INSTANCE)
ABOUT_PODS = Source(_KARPENTER, "v1", "Pod", _INSTANCE)
