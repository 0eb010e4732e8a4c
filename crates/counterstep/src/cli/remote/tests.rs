//! Which addresses are reached in clear, and what of them is shown.

use super::*;

#[test]
fn only_another_machine_without_tls_is_reached_in_clear() {
    for (url, is_clear) in [
        ("http://api.example:8080", true),
        ("HTTP://10.0.0.7", true),
        ("http://127.0.0.1.example/", true),
        ("http://user@[2001:db8::1]:80/", true),
        ("http://127.0.0.1:8080", false),
        ("http://localhost", false),
        ("http://[::1]:8080/x", false),
        ("https://api.example", false),
    ] {
        assert_eq!(host_in_clear(url).is_some(), is_clear, "{url}");
    }
}
