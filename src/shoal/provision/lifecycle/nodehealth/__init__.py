"""Node repair: replaces nodes that stay unhealthy."""
