"""The command ``momentmix``: one module for each subcommand, which calls the library."""

from momentmix.cli.app import cli, main

__all__ = ["cli", "main"]
