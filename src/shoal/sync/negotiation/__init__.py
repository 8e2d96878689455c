"""API negotiation: turns the imports of one API into a NegotiatedAPIResource with the lowest common denominator of
their schemas, and serves it.
"""
