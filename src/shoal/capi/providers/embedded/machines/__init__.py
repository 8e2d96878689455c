"""The EmbeddedMachine loop."""
