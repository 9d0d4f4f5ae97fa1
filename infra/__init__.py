"""What surrounds a pipeline and runs beside it: set-up of the environment, its examination, container image, serving, console."""
