"""Compiled code: what is done for every row, without the interpreter lock.

`code` is the extension module, built from the C files beside this one when momentmix is installed.
It is None where no compiler was found then, where the processor lacks the instructions (AVX2 with
FMA, or NEON), or where the environment variable MOMENTMIX_NATIVE is 0. NumPy does the work then:
more slowly, and with other roundings in the last bits of float64 sums.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

code: Any = None
if os.environ.get("MOMENTMIX_NATIVE", "") != "0":
    try:
        code = import_module("momentmix.native.compiled")
    except ImportError:  # not built, or not for this processor
        code = None
