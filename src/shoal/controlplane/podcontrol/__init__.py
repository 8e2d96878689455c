"""Pod handling shared by workload controllers: create, delete, rank, adopt and release."""
