"""The MachineHealthCheck loop."""
