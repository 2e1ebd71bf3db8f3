"""Formats and sources beside arrays, data frames, NPY, CSV, Parquet and Arrow files."""
