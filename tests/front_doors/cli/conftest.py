import os

import pytest


@pytest.fixture
def interrupted(monkeypatch, momentmix):
    """Run the command until it has saved so many files, where it is interrupted."""

    def run(n_saves, *arguments, **options):
        replace, left = os.replace, [n_saves]

        def interrupt(*paths, **more):
            replace(*paths, **more)
            left[0] -= 1
            if not left[0]:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", interrupt)
            assert momentmix(*arguments, **options).code == 130

    return run
