"""Sources of files, compressed text, queries and streams: a module for each kind."""
