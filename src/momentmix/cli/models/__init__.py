"""Commands that make a model, or use one."""
