"""The MachineDeployment reconciler."""
