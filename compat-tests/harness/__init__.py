"""What runs the clients: their folders, one cell of the table, the report."""
