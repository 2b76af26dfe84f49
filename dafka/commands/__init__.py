"""The commands of `dafka`, one module each, imported only when their command is called."""
