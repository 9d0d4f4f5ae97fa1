"""Load tester: the bytes in a fresh process without XLA, against the service level."""
