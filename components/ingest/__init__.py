"""Stage `ingest`: CSV files become tf.Example, one train and one eval split, types from the configuration and never guessed."""
