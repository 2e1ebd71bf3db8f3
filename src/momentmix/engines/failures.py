"""What went wrong in a job of an engine, from its long messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from momentmix.errors import ClusterError


@contextmanager
def running(engine: str, failures: tuple[type[Exception], ...], needs: str) -> Iterator[None]:
    """A job of an engine, whose failures become a `ClusterError`.

    Parameters
    ----------
    engine : str
        Its name.
    failures : tuple of type
        What the engine raises.
    needs : str
        What the workers need, for the message.
    """
    try:
        yield
    except failures as error:
        raise ClusterError(
            f"the {engine} job failed: {reason_of(error)} No part of an answer is given. Correct "
            f"what the task reports; every {needs}."
        ) from error


def reason_of(error: Exception) -> str:
    r"""The line of the message that says most: the last with the name of an error.

    Examples
    --------
    >>> reason_of(RuntimeError("task 3 failed\n  OSError: the disk is full\n  in line 7"))
    'OSError: the disk is full.'
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    python = [x for x in lines if x.partition(":")[0].endswith("Error") and " at " not in x]
    text = (python[-1:] or lines[:1] or [type(error).__name__])[0]
    return text if text.endswith(".") else f"{text}."
