"""The MachineDeployment loop."""
