"""From a PyTorch module to plain TensorFlow operators, by torch.export and a table with one row an operator."""

from components.exporter.lowering.lower import LoweredModule, lower

__all__ = ["LoweredModule", "lower"]
