"""Disruption controller: status of PodDisruptionBudgets."""
