"""The use case that `tandem init` copies; `use_case_name` and `use-case-name` in its text become the new names."""
