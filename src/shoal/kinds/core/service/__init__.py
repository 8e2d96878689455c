"""Service of core/v1: defaults, cluster IPs, validation and warnings."""
