"""The Machine loop."""
