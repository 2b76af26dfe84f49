"""A Spark session that fits the jobs: its JDK, its jars, its settings."""
