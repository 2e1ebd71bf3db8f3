"""Results of a decomposition, and the error where a genericity condition fails."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from momentmix._typing import Array
from momentmix.errors import DecompositionError
from momentmix.paper.generating import sub_tensors
from momentmix.paper.incomplete_tensor import IncompleteSymmetricTensor
from momentmix.paper.ranks import Split


@dataclass(frozen=True)
class Diagnostics:
    """Residual and condition numbers of a decomposition.

    Attributes
    ----------
    residual : float
        ‖F − Σ q_i^{⊗m}‖ / ‖F‖ on Ω_m.
    condition_systems : float
        Largest condition number of the linear systems (solve-G).
    condition_eigenvectors : float
        Condition number of the common eigenvectors.
    eigenvalue_gap : float
        Least distance between two eigenvalues of N(ξ), relative to the largest.
    imaginary_part : float
        Largest ‖Im q_i‖ / ‖q_i‖ after the best rotation by a root of unity.
    split : Split or None
        The split (k, p); None for one factor.
    coordinates : tuple of int
        The order of the coordinates.
    n_tried : int
        Orders of the coordinates that were tried.
    failed : str or None
        The genericity condition that failed, if any.
    polished_residual : float or None
        Residual after the optional polish.
    """

    residual: float
    condition_systems: float = 1.0
    condition_eigenvectors: float = 1.0
    eigenvalue_gap: float = 1.0
    imaginary_part: float = 0.0
    split: Split | None = None
    coordinates: tuple[int, ...] = ()
    n_tried: int = 1
    failed: str | None = None
    polished_residual: float | None = None


@dataclass(frozen=True)
class Decomposition:
    """Factors of an incomplete symmetric tensor: F ≈ Σ_i factors_i^{⊗order} on distinct indices.

    The problem is (paper: high-incomplete-decomp).
    """

    factors: Array
    diagnostics: Diagnostics = field(repr=False)

    def __repr__(self) -> str:
        rank, d = self.factors.shape
        return (
            f"Decomposition(rank={rank}, n_features={d}, residual={self.diagnostics.residual:.2e})"
        )


_CAUSES = {
    "leading-entry": (
        "condition (i) of Theorem 4.2 fails: every coordinate is zero in some factor, so that none "
        "can lead. Leave out features that are zero in many factors, or lower the rank"
    ),
    "independence-basis": (
        "condition (ii) of Theorem 4.2 fails: the factors' products of {p} coordinates are "
        "linearly dependent. The tensor seems to have rank {found}: ask for that, or use "
        "a higher order if factors that are dependent are meant"
    ),
    "independence-rows": (
        "condition (iii) of Theorem 4.2 fails: the factors' products of {q} upper coordinates are "
        "linearly dependent once one coordinate is left out. Lower the rank or use a higher order"
    ),
    "distinct-eigenvalues": (
        "condition (iv) of Theorem 4.2 fails: the eigenvalues of N(ξ) are not distinct, as for two "
        "factors that agree in the upper coordinates. Lower the rank, or try more directions"
    ),
    "residual": "the factors found are not finite. Rescale the tensor and try again",
}


def failure(
    tensor: IncompleteSymmetricTensor, rank: int, tried: list[Decomposition]
) -> DecompositionError:
    """The error for a tensor on which every order of the coordinates failed.

    It names the condition of Theorem 4.2 (paper: thm:tensor) that failed most often.
    """
    names = [attempt.diagnostics.failed for attempt in tried]
    condition = max(sorted({str(name) for name in names}), key=names.count)
    diagnostics = tried[names.index(condition)].diagnostics
    details = {"p": 0, "q": 0, "found": 0}
    split = diagnostics.split
    if split is not None:
        details["p"], details["q"] = split.degree, tensor.order - split.degree - 1
        blocks = sub_tensors(tensor, split, np.array(diagnostics.coordinates))
        details["found"] = int(np.linalg.matrix_rank(blocks.raised_upper))
    return DecompositionError(
        f"no decomposition of rank {rank} in {len(tried)} orders of the coordinates: "
        + _CAUSES[condition].format(**details)
        + ".",
        condition=condition,
        diagnostics=diagnostics,
    )
