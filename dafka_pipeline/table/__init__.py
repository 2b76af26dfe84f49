"""Tables that decide: what a table holds, and how far it has come, change in one commit."""
