//! Bytes of a stored file, held against the size and the digest that its output has committed.
//! Reads nothing itself.

use crate::digest::RunningDigest;
use crate::ports::ByteStream;
use counterstep_contracts::StoredFile;
use futures::StreamExt;
use futures::stream::once;
use std::future::ready;
use std::io;

/// Passes a stored file on as long as it is the one that was stored. Where it is not, the last
/// chunk is an error instead: a reader that was told the size gets fewer bytes, and cannot take the
/// file for whole.
#[must_use]
pub fn verified(body: ByteStream, file: &StoredFile) -> ByteStream {
    let (name, size, sha256) = (file.name.clone(), file.size_bytes, file.sha256.clone());
    let refused = move |why: &str| {
        let why = format!("the stored file `{name}` is not the one that was stored: {why}");
        io::Error::new(io::ErrorKind::InvalidData, why)
    };
    let (digest, short) = (RunningDigest::default(), refused.clone());
    let seen = digest.clone();
    let chunks = body.map(move |chunk| {
        let chunk = chunk?;
        seen.update(&chunk);
        match seen.size_bytes() {
            now if now < size => Ok(chunk),
            now if now > size => Err(refused("it is longer")),
            _ if seen.finish() == sha256 => Ok(chunk),
            _ => Err(refused("its SHA-256 differs")),
        }
    });
    let end =
        once(async move { (digest.size_bytes() < size).then(|| Err(short("it is shorter"))) });
    chunks.chain(end.filter_map(ready)).boxed()
}

#[cfg(test)]
mod tests {
    use super::verified;
    use crate::digest::hex;
    use bytes::Bytes;
    use counterstep_contracts::{FileName, StoredFile};
    use futures::executor::block_on;
    use futures::{StreamExt, stream};
    use sha2::{Digest, Sha256};

    /// What a reader of a file of these bytes gets before an error, and the error.
    fn read(stored: &str, found: &'static [&'static str]) -> (String, Option<String>) {
        let file = StoredFile {
            name: FileName::parse("a.txt").expect("a name"),
            bucket: "files".to_owned(),
            key: "t/default/x".to_owned(),
            size_bytes: stored.len() as u64,
            sha256: hex(&Sha256::digest(stored)),
            content_type: "text/plain".to_owned(),
        };
        let body = stream::iter(
            found
                .iter()
                .map(|chunk| Ok(Bytes::from_static(chunk.as_bytes()))),
        )
        .boxed();
        let mut text = String::new();
        for chunk in block_on(verified(body, &file).collect::<Vec<_>>()) {
            match chunk {
                Ok(bytes) => text.push_str(std::str::from_utf8(&bytes).expect("text")),
                Err(error) => return (text, Some(error.to_string())),
            }
        }
        (text, None)
    }

    #[test]
    fn a_file_that_is_not_the_one_that_was_stored_is_never_read_to_its_end() {
        assert_eq!(
            read("abcdef", &["abc", "", "def"]),
            ("abcdef".to_owned(), None)
        );
        assert_eq!(read("", &[]), (String::new(), None));
        for (found, got, why) in [
            (&["abc", "deF"][..], "abc", "its SHA-256 differs"),
            (&["abc", "de"], "abcde", "it is shorter"),
            (&[], "", "it is shorter"),
            (&["abc", "defg"], "abc", "it is longer"),
            (&["abcdefg"], "", "it is longer"),
        ] {
            let (text, error) = read("abcdef", found);
            assert_eq!(text, got);
            assert!(
                error
                    .as_ref()
                    .is_some_and(|error| error.ends_with(why) && error.contains("a.txt")),
                "{error:?}"
            );
        }
    }
}
