"""Namespace controller: deletes the content of terminating namespaces."""
