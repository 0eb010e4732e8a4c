//! Real servers for tests, private to the process that started them.
