"""Do the data need this many components? What is known of that, for the certificate."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Support:
    """Whether the data need a number of components, or fewer would do.

    Attributes
    ----------
    n_components : int
        The number that was asked about.
    supported : bool or None
        False: fewer components explain the data as well. None: it could not be decided.
    text : str
        The reason; where it could not be decided, what would decide it.
    """

    n_components: int
    supported: bool | None
    text: str
