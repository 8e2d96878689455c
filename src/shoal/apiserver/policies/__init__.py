"""Admission policies of logical clusters: which exist, what they match, and their CEL authorizer.

`admission.policies` evaluates them for a write; `kinds.policies` implements one evaluation.
"""
