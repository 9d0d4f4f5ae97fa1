"""Rollout starter: the first share of traffic to a version that is served."""
