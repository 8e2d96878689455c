"""The functions of CEL and of Kubernetes' libraries: one module per library, each a table of overloads."""
