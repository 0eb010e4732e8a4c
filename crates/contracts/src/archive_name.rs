//! Names of archive entries that every file system takes, Windows' among them. Must not change what
//! a file is called anywhere else: a client's name is kept as it came.

/// Bytes of a name that common file systems take.
const LONGEST: usize = 255;

/// Names that Windows takes for devices, with any extension.
const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];

/// The name with what Windows refuses, or drops without a word, replaced by `_`.
pub(crate) fn portable(name: &str) -> String {
    let allowed = |c: char| {
        if c.is_control() || "<>:\"/\\|?*".contains(c) {
            '_'
        } else {
            c
        }
    };
    let mut portable: String = name.chars().map(allowed).collect();
    let kept = portable.trim_end_matches(['.', ' ']).len();
    let dropped = portable.len() - kept;
    portable.truncate(kept);
    portable.extend(std::iter::repeat_n('_', dropped));
    if is_device(&portable) {
        portable.insert(0, '_');
    }
    shortened(&portable, LONGEST)
}

/// The name with a number before its extension.
pub(crate) fn numbered(name: &str, number: u32) -> String {
    let (stem, extension) = split_extension(name);
    let number = format!(" ({number})");
    // An extension that leaves no room for a stem is none.
    match LONGEST.checked_sub(number.len() + extension.len()) {
        Some(room) if room > 0 => shortened(stem, room) + &number + extension,
        _ => shortened(name, LONGEST - number.len()) + &number,
    }
}

/// Stem and extension (with its dot; empty where there is none).
pub(crate) fn split_extension(name: &str) -> (&str, &str) {
    match name.rfind('.') {
        Some(dot) if dot > 0 => name.split_at(dot),
        _ => (name, ""),
    }
}

fn is_device(name: &str) -> bool {
    let stem = name
        .split('.')
        .next()
        .unwrap_or_default()
        .trim_end()
        .to_lowercase();
    let port = stem
        .strip_prefix("com")
        .or_else(|| stem.strip_prefix("lpt"));
    // Superscript digits count too.
    let is_port = port.is_some_and(|digit| {
        digit.chars().count() == 1 && digit.contains(|c| "0123456789¹²³".contains(c))
    });
    DEVICES.contains(&stem.as_str()) || is_port
}

fn shortened(text: &str, limit: usize) -> String {
    text[..text.floor_char_boundary(limit)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_windows_refuses_are_replaced_and_others_kept() {
        for (name, expected) in [
            ("con", "_con"),
            ("NUL", "_NUL"),
            ("Aux.tar.gz", "_Aux.tar.gz"),
            ("com1 .txt", "_com1 .txt"),
            ("lpt².log", "_lpt².log"),
            ("com10", "com10"),
            ("console.log", "console.log"),
            ("a.txt.", "a.txt_"),
            ("a . .", "a____"),
            ("...", "___"),
            ("*", "_"),
            ("|id", "_id"),
            ("a<b>:\"?.txt", "a_b____.txt"),
            (".env", ".env"),
            ("Ünï 名前.zip", "Ünï 名前.zip"),
        ] {
            assert_eq!(portable(name), expected, "{name}");
        }
    }

    #[test]
    fn a_number_fits_into_the_longest_name() {
        let long = format!("{}.txt", "ü".repeat(125));
        for name in [
            long.clone(),
            "x".repeat(255),
            format!("a.{}", "x".repeat(253)),
        ] {
            let numbered = numbered(&name, 12);
            assert!(
                numbered.len() <= LONGEST && numbered.contains(" (12)"),
                "{numbered}"
            );
        }
        assert!(numbered(&long, 2).ends_with(" (2).txt"));
        assert_eq!(portable(&format!("con.{}", "x".repeat(251))).len(), LONGEST);
    }
}
