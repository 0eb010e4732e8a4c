//! The private servers keep what they promise: they start, keep their data through a restart, free
//! their port, and leave neither process nor file, whatever way the test process ends.

mod leftovers;
mod lives;
mod proxy;
