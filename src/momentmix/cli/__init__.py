"""The command ``momentmix``: thin doors to the library, one file for each."""

from momentmix.cli.app import cli, main

__all__ = ["cli", "main"]
