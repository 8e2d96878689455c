"""Container images, an engine and kind nodes made on this machine, from Debian packages and Go modules.

Nothing is pulled from a registry of images. `python -m tests.real.containers` builds what the tests with the mark
`containers` need, and runs them; `make containers` is that command.
"""
