"""resource.k8s.io/v1 (dynamic resource allocation): DeviceClass, ResourceClaim, ResourceClaimTemplate and
ResourceSlice.
"""
