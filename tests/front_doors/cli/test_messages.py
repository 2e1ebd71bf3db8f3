"""One text for Python and the command: the options that it names exist."""

import re
from pathlib import Path

import momentmix as mm
from momentmix.cli.app import cli

NAMED = re.compile(r"(?<!var)\(--([a-z-]+)|\boption\((\w+)=")


def test_options_that_messages_name_are_those_of_a_command():
    commands = [cli.get_command(None, name) for name in cli.list_commands(None)]
    own = [option for command in commands for option in command.params]
    known = {name for option in own for name in (*option.opts, *option.secondary_opts)}
    texts = [path.read_text(encoding="utf-8") for path in Path(mm.__file__).parent.rglob("*.py")]
    named = {f"--{''.join(found).replace('_', '-')}" for found in NAMED.findall("\n".join(texts))}
    assert len(named) > 12
    assert named <= known
