"""Events about objects whose story is in their status: what became of them, told when it changes."""
