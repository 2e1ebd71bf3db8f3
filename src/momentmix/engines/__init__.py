"""Common parts of Spark and Ray: an adapter is an `Engine`, which runs a `Task` on partitions."""
