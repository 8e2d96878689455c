"""Status controller of FlowSchemas."""
