"""Jobs of Spark, whose failures are errors of this package."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from momentmix.errors import ClusterError


def run_job(job: Callable[[], Any]) -> Any:
    """What a job gives; a `ClusterError` with the reason where it fails."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return job()
    except (PySparkException, Py4JError) as error:
        raise ClusterError(
            f"the Spark job failed: {_reason(error)} No part of an answer is given. Correct what "
            "the task reports; every executor needs momentmix (PYSPARK_PYTHON names its Python)."
        ) from error


def _reason(error: Exception) -> str:
    """The line of the message that says most: the last with the name of an error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    python = [x for x in lines if x.partition(":")[0].endswith("Error") and " at " not in x]
    text = (python[-1:] or lines[:1] or [type(error).__name__])[0]
    return text if text.endswith(".") else f"{text}."
