"""The commands of `tandem`, one module each: `add_arguments` and `execute`."""
