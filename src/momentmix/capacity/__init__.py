"""How many components the moments of a given order identify, and which order to take."""
