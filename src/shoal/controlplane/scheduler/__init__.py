"""Pod scheduler for all hosted clusters of a store."""
