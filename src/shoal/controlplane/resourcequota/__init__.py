"""ResourceQuota controller."""
