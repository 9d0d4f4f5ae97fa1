"""Pusher: the better blessed candidate to the staging directory of a model server."""
