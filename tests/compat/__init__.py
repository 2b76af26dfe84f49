"""The runner of compat-tests itself."""
