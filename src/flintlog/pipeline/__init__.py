"""Spark: the data source, the jobs over it, the session they run in."""
