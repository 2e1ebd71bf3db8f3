"""The array libraries to test with: a strict one always, torch and JAX where installed."""

import importlib.util
from typing import NamedTuple

import array_api_strict
import numpy as np
import pytest


class Library(NamedTuple):
    """A library: NumPy → its arrays, its arrays → NumPy, and the type of its arrays."""

    name: str
    put: object
    back: object
    kind: type


def _strict():
    return Library(
        "strict", array_api_strict.asarray, np.from_dlpack, type(array_api_strict.asarray(0))
    )


def _torch():
    import torch

    return Library("torch", torch.from_numpy, np.asarray, torch.Tensor)


def _jax():
    import jax

    jax.config.update("jax_enable_x64", True)
    return Library("jax", jax.numpy.asarray, np.asarray, jax.Array)


MAKERS = {"strict": _strict, "torch": _torch, "jax": _jax}
INSTALLED = ["strict", *(name for name in ("torch", "jax") if importlib.util.find_spec(name))]


@pytest.fixture(params=INSTALLED, scope="session")
def library(request):
    return MAKERS[request.param]()


@pytest.fixture(params=[name for name in INSTALLED if name != "jax"], scope="session")
def prompt_library(request):
    """Without JAX, which compiles every operation for every shape: for tests of many shapes."""
    return MAKERS[request.param]()
