"""admissionregistration.k8s.io/v1: webhook configurations, and admission policies with their bindings."""
