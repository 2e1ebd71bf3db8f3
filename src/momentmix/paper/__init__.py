"""The paper in one package: incomplete tensors, Algorithms 3.4, 4.1 and 5.1, ranks, its tables.

`fit` is imported when it is first used: the library below imports tensors and ranks from here.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from momentmix.paper.gaussian_mixture import fit as fit

__all__ = ["fit"]


def __getattr__(name: str) -> Any:
    if name != "fit":
        raise AttributeError(f"module 'momentmix.paper' has no attribute {name!r}")
    from momentmix.paper.gaussian_mixture import fit

    return fit
