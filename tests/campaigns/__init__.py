"""Long searches for failures, as numbered cases: `make test` runs a few, `make test-all` all."""
