//! Forms, see `counterstep_api::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| counterstep_api::fuzz::multipart(input));
