"""``momentmix info``: what a file holds."""

from momentmix.cli.info.command import info_command

__all__ = ["info_command"]
