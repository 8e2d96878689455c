"""Built-in admission plugins, named after upstream's where there is one."""
