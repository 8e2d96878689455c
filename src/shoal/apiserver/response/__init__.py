"""Content negotiation and rendering of responses."""
