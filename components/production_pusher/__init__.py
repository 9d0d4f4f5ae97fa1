"""Production pusher: the bytes to the model server, until it answers with them."""
