"""The shared steps of a write: decoding, metadata, validation, locks and encoding for storage."""
