"""The use case use_case_name."""
