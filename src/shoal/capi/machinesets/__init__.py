"""The MachineSet reconciler."""
