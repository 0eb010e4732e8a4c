//! What people are told who found nothing of a task type. Must not decide what is shown.

use super::remote::Remote;
use counterstep_contracts::declaration::kebab_case;
use counterstep_contracts::operation::task_types::ListTaskTypes;
use counterstep_kernel::audit::one_line;
use counterstep_node::settings::nearest;
use std::io::Write as _;

/// Tells people who found nothing of a type that the API knows none of this name. It is no error: an older program may have left
/// tasks of it.
pub(super) async fn tell_unknown(remote: &Remote, name: &str) {
    let known = remote.call::<ListTaskTypes>((), ()).await;
    let known = known.into_iter().flat_map(|page| page.items);
    let known: Vec<_> = known.map(|it| it.switch.task_type).collect();
    if let Some(text) = unknown(name, &known) {
        let _ = writeln!(std::io::stderr(), "{text}");
    }
}

/// That no type has this name, or this route, with the one that is most like it.
fn unknown(name: &str, known: &[String]) -> Option<String> {
    if known.is_empty() || known.iter().any(|it| it == name || kebab_case(it) == name) {
        return None;
    }
    // As people write it: `place-order` and `PlaceOrder` are one name.
    let near = nearest(&kebab_case(name), known.iter().map(|it| kebab_case(it)));
    let near = near.and_then(|near| known.iter().find(|it| kebab_case(it) == near));
    let near = near.map_or_else(
        || "see `types list`".to_owned(),
        |near| format!("did you mean `{near}`?"),
    );
    let name = one_line(name);
    Some(format!("note: the API knows no task type `{name}`: {near}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_that_nothing_knows_is_told_with_the_one_most_like_it() {
        let known = ["CreateZipFromFiles", "PlaceOrder"].map(str::to_owned);
        for name in ["PlaceOrder", "place-order"] {
            assert_eq!(unknown(name, &known), None);
        }
        for (name, part) in [
            ("PlaceOrdr", "did you mean `PlaceOrder`?"),
            ("placeorder", "did you mean `PlaceOrder`?"),
            ("create-zip", "did you mean `CreateZipFromFiles`?"),
            ("q\u{1b}[2J", "q\\u{1b}[2J`: see `types list`"),
        ] {
            let text = unknown(name, &known).expect("a note");
            assert!(text.contains(part), "{text}");
        }
    }
}
