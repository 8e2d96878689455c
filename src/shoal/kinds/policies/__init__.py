"""Admission policies: what their expressions may name, what they mean for a request, and what they make of an object.

Pure. Which policies a cluster has, and when they are asked, is `apiserver.policies` and `apiserver.admission.policies`.
"""


class Undecided(Exception):
    """No condition says no, and some say nothing."""
