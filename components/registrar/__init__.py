"""Registrar: a version in the model registry for each audited candidate, blessed or not."""
