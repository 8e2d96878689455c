"""Admission policies: the environment of their expressions, their evaluation for a request, and their mutations.

Pure. `apiserver.policies` and `apiserver.admission.policies` know which policies a cluster has and when they run.
"""


class MatchError(Exception):
    """No match condition is false, and at least one failed to evaluate."""
