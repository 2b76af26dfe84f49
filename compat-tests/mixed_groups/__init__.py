"""Members of several clients in one group, under faults: who does what, what happened, was it right."""
