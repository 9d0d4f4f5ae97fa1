"""The embedded model server: TensorFlow Serving's gRPC and REST interfaces over TensorFlow's own C++ loader."""
