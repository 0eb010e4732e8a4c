//! All integration tests of what authors touch in one binary, so that it links once. A list of
//! modules and nothing else.

mod steps {
    mod resilience;
    mod schedules;
}
