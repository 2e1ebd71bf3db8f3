"""The tag of a wheel says what is in it; all other settings are in pyproject.toml."""

from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel


class WheelByContents(bdist_wheel):
    """A wheel that is tagged py3-none-any if the optional extension could not be built."""

    def get_tag(self) -> tuple[str, str, str]:
        """Return the tag, once the files of the wheel are in their folder."""
        if not list(Path(self.bdist_dir).glob("momentmix/native/compiled.*")):
            self.root_is_pure = True
        return super().get_tag()


setup(cmdclass={"bdist_wheel": WheelByContents})
