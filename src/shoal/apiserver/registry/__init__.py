"""The resources each logical cluster serves: built-ins, CRDs, negotiated and synthesized ones."""
