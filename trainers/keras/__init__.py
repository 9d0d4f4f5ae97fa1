"""Keras under the trainers' rules."""
