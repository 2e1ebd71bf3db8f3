"""Pictures of mixtures, by the Display convention of scikit-learn (matplotlib, extra ``plot``).

Each display has ``from_estimator``, which takes a fitted `MomentGaussianMixture`, a `FitResult` or
a `DiagonalMixture`, and gives an object that holds what was drawn: ``ax_`` or ``axes_``, and
``figure_``. Components are told apart by colors that people with color-blindness can tell apart,
and by numbers beside them, since no twenty colors can be.
"""

from momentmix.displays.choice import ChoiceDisplay
from momentmix.displays.means import MeansDisplay
from momentmix.displays.pairs import PairsDisplay
from momentmix.displays.residuals import MomentResidualsDisplay
from momentmix.displays.style import need_matplotlib, thinned
from momentmix.displays.weights import WeightsDisplay

__all__ = [
    "ChoiceDisplay",
    "MeansDisplay",
    "MomentResidualsDisplay",
    "PairsDisplay",
    "WeightsDisplay",
    "need_matplotlib",
    "thinned",
]
