"""certificates.k8s.io/v1: CertificateSigningRequest, and reading of PEM data."""
