"""Promoter: an approved candidate becomes a version of the production model."""
