"""What the adapters of engines share: columns of distributed rows, and work on one partition.

An engine (Spark, Ray) runs a `Task` on each of its partitions, which gives the bytes of summaries,
and adds these. No engine is imported here.
"""
