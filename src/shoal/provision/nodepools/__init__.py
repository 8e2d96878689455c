"""Status of NodePools, node classes and NodeOverlays: conditions, hash and usage."""
