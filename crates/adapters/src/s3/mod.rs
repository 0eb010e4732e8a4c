//! Objects in S3-compatible buckets.
