"""The XLA compiler: twins of both signatures in shape buckets, their measurements, and the identity of the final SavedModel."""
