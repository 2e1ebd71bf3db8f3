"""Try an installed wheel: a small fit, with the compiled module where it must be there."""

import os

import numpy as np

import momentmix as mm
from momentmix import native

if os.environ.get("EXPECT_COMPILED") == "1" and native.code is None:
    raise SystemExit("the wheel has no compiled module that this processor can use")
truth = mm.Mixture.diagonal([0.4, 0.6], [[-2.0] * 5, [2.0] * 5], np.ones((2, 5)))
rows, _ = truth.sample(2_000, random_state=0)
result = mm.fit(rows, 2, random_state=0)
error = float(np.abs(np.sort(result.mixture.weights) - [0.4, 0.6]).max())
if not result.certificate.passed or error > 0.03:
    raise SystemExit(f"the fit is wrong: {result}")
kind = "NumPy" if native.code is None else "compiled"
print(f"momentmix {mm.__version__} ({kind}): weights {result.mixture.weights.round(3)}, passed")
