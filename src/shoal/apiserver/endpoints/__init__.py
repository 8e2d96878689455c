"""Endpoints beside the verbs: discovery, OpenAPI, non-resource paths and extra routes."""
