"""What pages, notebooks and pictures share: escaped markup, and the colors of components."""
