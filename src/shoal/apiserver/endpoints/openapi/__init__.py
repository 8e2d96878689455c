"""OpenAPI v3 and v2 of a logical cluster: one v3 document per group and version, built on first request."""

from shoal.apiserver.endpoints.openapi.service import OpenAPIService

__all__ = ["OpenAPIService"]
