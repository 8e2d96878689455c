"""OpenAPI v3: what a logical cluster serves, one document per group and version, built when asked for."""

from shoal.apiserver.openapi.service import OpenApi

__all__ = ["OpenApi"]
