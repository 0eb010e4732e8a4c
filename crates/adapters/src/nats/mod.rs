//! Queue, hints and events on NATS JetStream.
