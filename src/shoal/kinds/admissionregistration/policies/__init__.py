"""Admission policies: the environment of their expressions, their evaluation for a request, and their mutations.

Pure. `registry.policy_source` knows which policies a cluster has, `admission.policies` when they run.
"""


class MatchError(Exception):
    """No match condition is false, and at least one failed to evaluate."""
