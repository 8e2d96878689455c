"""Infrastructure providers."""
