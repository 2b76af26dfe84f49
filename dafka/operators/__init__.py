"""What operators ask: through the socket of a gateway that runs, or of the files of a store that does not."""
