"""What serves models: the embedded model server and the router in front of any model server."""
