"""Reports the status of hosted clusters to the hub."""
