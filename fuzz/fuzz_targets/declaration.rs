//! Declarations of task types, see `crates/macros/src/fuzzed.rs`. A procedural macro can be called by the compiler alone,
//! so its sources are compiled here.
#![no_main]
#![allow(dead_code, reason = "what only the macro itself and its tests use")]

#[path = "../../crates/macros/src/args.rs"]
mod args;
#[path = "../../crates/macros/src/check/mod.rs"]
mod check;
#[path = "../../crates/macros/src/code.rs"]
mod code;
#[path = "../../crates/macros/src/declaration.rs"]
mod declaration;
#[path = "../../crates/macros/src/expand/mod.rs"]
mod expand;
#[path = "../../crates/macros/src/fuzzed.rs"]
mod fuzzed;
#[path = "../../crates/macros/src/parse.rs"]
mod parse;
#[path = "../../crates/macros/src/report.rs"]
mod report;
#[path = "../../crates/macros/src/root.rs"]
mod root;
#[path = "../../crates/macros/src/text.rs"]
mod text;

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzzed::declaration(input));
