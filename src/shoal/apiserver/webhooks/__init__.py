"""Webhooks of logical clusters: which there are, where they answer, and what is said to them.

When they are asked about a write is `admission.webhooks`; that objects of other versions come from one is `conversion`.
"""
