"""Static NodePools: a fixed number of NodeClaims, whatever pods are pending."""
