//! All of the kernel's integration tests in one binary, so that it links once. A list of modules
//! and nothing else.

mod kernel {
    mod journal;
    mod judge;
    mod space;
    mod states;
}
