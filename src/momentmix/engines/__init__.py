"""What Spark and Ray share: an adapter is an `Engine`, which runs a `Task` on each partition."""
