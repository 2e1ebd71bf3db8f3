"""Helper modules importable; Hypothesis without deadlines, since a busy machine is no failure."""

import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent / "unit" / "fitting"))
settings.register_profile("momentmix", deadline=None)
settings.load_profile("momentmix")
