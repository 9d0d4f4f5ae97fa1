"""Promotion gate: lets a candidate through that the ledger covers, byte for byte."""
