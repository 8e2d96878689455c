"""Pure functions on Kubernetes objects as decoded JSON: errors, codecs, patches, selectors, schemas, CEL and
server-side apply.
"""
