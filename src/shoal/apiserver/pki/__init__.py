"""The certificate authority: signing, serving certificates and their reload."""
