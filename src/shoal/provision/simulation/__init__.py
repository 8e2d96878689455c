"""Karpenter's scheduling simulation: places pods on existing, in-flight and new nodes. Pure."""
