//! Locks and fast checks on Redis. Everything here may be missing: the database decides.
