"""What the catalog keeps, how it is read back from the stores, and what is deleted or moved on its word."""

MUTANTS = ()
