"""Simulated cloud provider: sells instance types from a catalogue and creates simulated Nodes."""
