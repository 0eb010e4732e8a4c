//! Key sets and access tokens, see `counterstep_adapters::jwks::fuzzed`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let _ = counterstep_adapters::jwks::fuzzed::tokens(input);
});
