"""``momentmix summarize``: the command, its passes, and their checkpoints."""
