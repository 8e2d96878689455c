"""OpenAPI v3 and v2 of a logical cluster: one v3 document per group and version, built on first request."""

from shoal.apiserver.openapi.service import OpenApi

__all__ = ["OpenApi"]
