"""Pictures of mixtures, as Display objects like those of scikit-learn (matplotlib, extra ``plot``).

``from_estimator`` of each display takes a fitted estimator, a `FitResult` or a `Mixture`, and
returns an object with the attributes ``ax_`` or ``axes_``, and ``figure_``.
Components differ in color, line style and number; the colors suit color-blind readers.
"""

from momentmix.displays.choice import ChoiceDisplay, TrialsDisplay
from momentmix.displays.columns import ColumnsDisplay
from momentmix.displays.monitoring.comparison import ComparisonDisplay
from momentmix.displays.monitoring.shares_over_time import SharesDisplay
from momentmix.displays.pairs import PairsDisplay
from momentmix.displays.parameters import LevelsDisplay, MeansDisplay, WeightsDisplay
from momentmix.displays.residuals import MomentResidualsDisplay
from momentmix.displays.style import need_matplotlib

__all__ = [
    "ChoiceDisplay",
    "ColumnsDisplay",
    "ComparisonDisplay",
    "LevelsDisplay",
    "MeansDisplay",
    "MomentResidualsDisplay",
    "PairsDisplay",
    "SharesDisplay",
    "TrialsDisplay",
    "WeightsDisplay",
    "need_matplotlib",
]
