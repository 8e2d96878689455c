"""ServiceAccount, root CA publisher and token Secret controllers."""
