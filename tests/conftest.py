"""Hypothesis without deadlines: a busy machine is no failure."""

from hypothesis import settings

settings.register_profile("momentmix", deadline=None)
settings.load_profile("momentmix")
