"""Endpoints and EndpointSlice controllers."""
