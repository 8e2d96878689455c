"""The EmbeddedMachine reconciler."""
