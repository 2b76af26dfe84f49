"""The commands of `dafka-pipeline`, one module each, imported only when their command is called."""
