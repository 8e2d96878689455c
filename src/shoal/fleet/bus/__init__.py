"""The bus between hub and workers: desired state goes down, status goes up, over the Kubernetes watch or over NATS."""
