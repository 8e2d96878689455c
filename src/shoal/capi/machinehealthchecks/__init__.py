"""The MachineHealthCheck reconciler."""
