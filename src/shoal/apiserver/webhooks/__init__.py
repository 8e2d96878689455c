"""Webhooks of logical clusters: which exist, how they are called, and the review protocol.

`admission.dispatch` decides when a write is sent to them. `conversion` converts objects between versions.
"""
