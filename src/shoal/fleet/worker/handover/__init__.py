"""Hands a cluster over to the worker that the hub has assigned it to, and deletes it here."""
