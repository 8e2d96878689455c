"""The MachineSet loop."""
