"""Tests, standard errors, predicted loss, findings, certificate."""
