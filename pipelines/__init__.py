"""What is run: the pipelines, their configuration, the local runner and the command line."""
