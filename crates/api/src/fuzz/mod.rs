//! What must hold of the parsers of requests, whatever the bytes: for the programs of `fuzz/`, and for a
//! test that reads their committed inputs. No part of the interface. Must not parse anything itself.

mod json;
mod multipart;
mod request;

pub use multipart::multipart;
pub use request::request;

/// What stands before the first line break, and what comes after it.
fn line(bytes: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memchr(b'\n', bytes) {
        Some(end) => (&bytes[..end], &bytes[end + 1..]),
        None => (bytes, &[]),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// Each committed input of a program of `fuzz/`, among them what it has found.
    fn each(program: &str, check: fn(&[u8])) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
        let folder = folder.join(program);
        let mut read = 0;
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            // Shown where the check panics.
            println!("{}", path.display());
            check(&fs::read(&path).unwrap());
            read += 1;
        }
        assert!(read > 0, "no inputs in {}", folder.display());
    }

    #[test]
    fn committed_inputs_of_forms_keep_the_rules() {
        each("multipart", super::multipart);
    }

    #[test]
    fn committed_inputs_of_requests_keep_the_rules() {
        each("request", super::request);
    }
}
