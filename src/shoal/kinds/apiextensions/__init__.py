"""apiextensions.k8s.io/v1: CustomResourceDefinition and its schemas."""
