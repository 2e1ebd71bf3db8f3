"""Shared by pages, notebooks and pictures: escaped markup, and the colors of components."""
