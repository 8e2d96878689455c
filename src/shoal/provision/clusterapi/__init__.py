"""Cloud provider on Cluster API: MachineDeployments as node groups, and standalone Machines from templates."""
