"""The auditor: judges a candidate by TFMA and by what earlier stages measured, and blesses it or does not."""
