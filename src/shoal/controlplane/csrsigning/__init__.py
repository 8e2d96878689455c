"""Signs approved CertificateSigningRequests and deletes old ones."""
