"""The functions of the language and of Kubernetes: one module per library, each a table of overloads."""
