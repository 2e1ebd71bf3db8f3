"""From rows or moments to a mixture with a certificate."""
