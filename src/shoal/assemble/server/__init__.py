"""The servers of Shoal: API server, hub and worker, their routes, and the controllers that run beside them."""
