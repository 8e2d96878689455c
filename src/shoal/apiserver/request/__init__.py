"""What a request asks for: path, verb, query options, deadline, selectors and trace span."""
