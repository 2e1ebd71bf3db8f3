"""Jobs of Spark, whose failures are errors of this package."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from momentmix.engines.failures import reason_of
from momentmix.errors import ClusterError


def run_job(job: Callable[[], Any]) -> Any:
    """What a job gives; a `ClusterError` with the reason where it fails."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return job()
    except (PySparkException, Py4JError) as error:
        raise ClusterError(
            f"the Spark job failed: {reason_of(error)} No part of an answer is given. Correct what "
            "the task reports; every executor needs momentmix (PYSPARK_PYTHON names its Python)."
        ) from error
