//! All of the kernel's integration tests in one binary, so that it links once. A list of modules and nothing else.

mod kernel {
    mod judge;
    mod overrides;
    mod resilience;
    mod space;
    mod states;
}
