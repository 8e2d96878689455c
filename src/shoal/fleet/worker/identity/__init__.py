"""A worker's client certificate: key, CertificateSigningRequest and renewal."""
