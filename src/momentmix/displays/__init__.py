"""Pictures of mixtures, as Display objects like those of scikit-learn (matplotlib, extra ``plot``).

``from_estimator`` of each display takes a fitted estimator, a `FitResult` or a `Mixture`, and
returns an object with the attributes ``ax_`` or ``axes_``, and ``figure_``.
Components differ in color, line style and number; the colors suit color-blind readers.
"""

from momentmix.displays.columns import ColumnsDisplay
from momentmix.displays.means import MeansDisplay
from momentmix.displays.pairs import PairsDisplay
from momentmix.displays.shares import SharesDisplay
from momentmix.displays.style import need_matplotlib
from momentmix.displays.trials import TrialsDisplay

__all__ = [
    "ColumnsDisplay",
    "MeansDisplay",
    "PairsDisplay",
    "SharesDisplay",
    "TrialsDisplay",
    "need_matplotlib",
]
