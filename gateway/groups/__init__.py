"""Consumer groups, classic protocol: pure state machines, and the shell around them."""
