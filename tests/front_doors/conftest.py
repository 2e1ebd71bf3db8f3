import io
import os
import shutil
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from momentmix.cli import main


@pytest.fixture(autouse=True)
def _close_pictures():
    """After each test, where anything has loaded matplotlib."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture
def momentmix(monkeypatch, capsysbinary):
    """Run the command in this process; gives exit code, standard output and standard error."""

    def run(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(stdin)))
        capsysbinary.readouterr()
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            with pytest.raises(SystemExit) as stop:
                main([str(argument) for argument in arguments])
        out, err = capsysbinary.readouterr()
        return SimpleNamespace(code=stop.value.code, out=out.decode(), err=err.decode())

    return run


@pytest.fixture(scope="session")
def check_same():
    """A check: the same rows and features, and moments within the accuracy of shards."""

    def check(found, expected):
        assert found.n_rows == expected.n_rows
        assert found.feature_names == expected.feature_names
        assert found.schema == expected.schema
        assert found.order == expected.order
        np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-12, atol=1e-13)
        scale = np.where(expected.deviation > 0, expected.deviation, 1.0)
        there, here = (s.moments(shift=expected.mean, scale=scale) for s in (found, expected))
        np.testing.assert_allclose(there.powers, here.powers, rtol=1e-9, atol=1e-10)
        for products, wanted in zip(there.distinct, here.distinct, strict=True):
            np.testing.assert_allclose(products, wanted, rtol=1e-9, atol=1e-10)

    return check


@pytest.fixture(scope="session")
def spark_session():
    """A local Spark of two cores, whose tasks are tried four times."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs a Java runtime")
    patch = pytest.MonkeyPatch()
    patch.setenv("PYSPARK_PYTHON", sys.executable)
    patch.setenv("OPENBLAS_NUM_THREADS", "1")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2,4]").appName("momentmix")
    settings = {
        "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": "2",
    }  # fmt: skip
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
    patch.undo()
