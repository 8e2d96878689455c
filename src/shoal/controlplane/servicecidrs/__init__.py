"""ServiceCIDR controller."""
