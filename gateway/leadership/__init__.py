"""Which gateway leads which partition: slots, the table that names their gateways, and the next table."""
