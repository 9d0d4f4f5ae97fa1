"""The exporter: native models of both frameworks become SavedModels of one contract."""
