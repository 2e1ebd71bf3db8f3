"""What went wrong in a job of an engine, from its long messages."""

from __future__ import annotations


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
