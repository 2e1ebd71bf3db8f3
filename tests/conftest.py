"""Helper modules importable; Hypothesis without deadlines, since a busy machine is no failure."""

import sys
from pathlib import Path

from hypothesis import settings

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "unit" / "fitting")]
settings.register_profile("momentmix", deadline=None)
settings.load_profile("momentmix")
