"""What the adapters of engines share: columns of distributed rows, work on a partition, sums.

An adapter (Spark, Ray) is an `Engine`: it finds columns, runs a `Task` on each of its partitions,
and brings the results back. No engine is imported here.
"""
