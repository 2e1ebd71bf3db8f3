"""What makes each component of a mixture different from the others, in words."""
