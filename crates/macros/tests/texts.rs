//! Texts that the macro reads and writes, beside what the contracts make of the same.

use crate::text::{as_written, bytes, kebab_case, millis, without_self};
use counterstep_steps::contracts::declaration;
use counterstep_steps::contracts::retry;
use syn::Type;

#[test]
fn types_are_printed_as_people_write_them() {
    for text in [
        "Vec<Option<u8>>",
        "a::b::C",
        "::std::collections::BTreeMap<String, Vec<(u8, [u8; 4])>>",
        "Box<dyn Fn(u8) -> u16 + Send>",
        "&'static mut str",
        "<Self as Trait<A = u8>>::Out",
        "()",
    ] {
        let ty: Type = syn::parse_str(text).unwrap();
        assert_eq!(as_written(&ty), text);
    }
}

#[test]
fn self_is_spelled_out_at_any_depth() {
    let (ty, own): (Type, Type) = (
        syn::parse_quote!(Vec<(Self, Self::A)>),
        syn::parse_quote!(m::Task),
    );
    assert_eq!(
        as_written(without_self(&ty, &own)),
        "Vec<(m::Task, m::Task::A)>"
    );
}

#[test]
fn what_stands_in_a_type_with_arguments_is_still_a_path() {
    let path: syn::Path = syn::parse_quote!(Self::RETRY);
    for (own, expected) in [
        ("m::Task", "m::Task::RETRY"),
        ("Task<u8>", "<Task<u8>>::RETRY"),
        ("(Task)", "<(Task)>::RETRY"),
    ] {
        let own: Type = syn::parse_str(own).unwrap();
        let path = without_self(&path, &own);
        assert_eq!(as_written(&path), expected);
        assert!(syn::parse2::<syn::ExprPath>(path).is_ok(), "{expected}");
    }
}

#[test]
fn names_and_durations_are_read_as_the_contracts_read_them() {
    for name in [
        "CreateZipFromFiles",
        "TranscodeVideo4K",
        "HTTPPing",
        "place_order",
        "A",
    ] {
        assert_eq!(kebab_case(name), declaration::kebab_case(name));
    }
    for text in [
        "1ms", "500ms", "2s", "5m", "1h", "7d", "", "5", "s", "1.5s", "5 s", "-1s", "5min", "+5s",
        "0s",
    ] {
        let expected = retry::parse_duration(text).filter(|duration| !duration.is_zero());
        assert_eq!(
            millis(text).map(std::time::Duration::from_millis),
            expected,
            "{text}"
        );
    }
}

#[test]
fn sizes_are_read_as_people_write_them() {
    use counterstep_steps::contracts::bytes::format_bytes;
    for text in ["1KiB", "512MiB", "2GiB", "3TiB"] {
        assert_eq!(bytes(text).map(format_bytes).as_deref(), Some(text));
    }
    for text in [
        "",
        "5",
        "0MiB",
        "5 MiB",
        "5MB",
        "5mib",
        "-5MiB",
        "99999999999TiB",
    ] {
        assert_eq!(bytes(text), None, "{text}");
    }
}
