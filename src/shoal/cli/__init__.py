"""The command line. `main` finds a command by its module name, so each command is a module; `options` has shared
options.
"""
