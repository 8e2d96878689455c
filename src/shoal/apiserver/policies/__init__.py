"""Admission policies of logical clusters: which there are and whom they concern, their parameters, their authorizer.

When they are asked about a write is `admission.policies`; what they say is `kinds.policies`.
"""
