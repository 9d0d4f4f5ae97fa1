"""PyTorch Lightning under the trainers' rules."""
