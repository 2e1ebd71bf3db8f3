"""Make the helper modules of the tests importable."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "unit" / "fitting"))
