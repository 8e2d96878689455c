"""EndpointSlice mirroring controller."""
