"""The core group (v1): defaults, validation and warnings of its kinds. Pods and Services have packages of their own."""
