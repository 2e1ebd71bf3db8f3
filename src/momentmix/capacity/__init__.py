"""Number of components that the moments of an order identify, and the order to take."""
