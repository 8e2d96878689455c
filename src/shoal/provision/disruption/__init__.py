"""Disruption: removes or replaces empty, drifted and underutilized nodes within NodePool budgets."""
