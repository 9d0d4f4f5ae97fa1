"""How the two models are fitted: the same verbs, data, metrics and records for Keras and for Lightning."""
