//! Pages of all backends in one row: their objects, backend by backend, and then their open uploads.
//! A page is one request; what it gives is at most a thousand entries. Must not show anything under
//! a name that does not lead back to where it lies.

use super::backends::{Backend, Backends};
use super::client::{OpenUpload, Uploads};
use counterstep_kernel::ports::{Listed, ObjectError, ObjectPage};
use std::sync::Arc;

/// Where a page begins: `{kind}|{backend}||{key}` or `u|{backend}|{upload}|{key}`, with the keys of
/// the real buckets, or with what the server takes in their stead; the kind is that of the server.
/// The key comes last: those of others may hold anything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Cursor {
    uploads: bool,
    backend: String,
    key: String,
    upload: String,
}

impl Cursor {
    fn parse(text: &str, of_objects: &str) -> Result<Self, ObjectError> {
        let mut parts = text.splitn(4, '|');
        let mut part = || parts.next().unwrap_or_default().to_owned();
        let (kind, backend, upload, key) = (part(), part(), part(), part());
        match kind.as_str() {
            kind if kind == of_objects || kind == "u" => Ok(Self {
                uploads: kind == "u",
                backend,
                key,
                upload,
            }),
            _ => Err(invalid_cursor(text)),
        }
    }

    fn write(&self, of_objects: &str) -> String {
        let kind = if self.uploads { "u" } else { of_objects };
        format!("{kind}|{}|{}|{}", self.backend, self.upload, self.key)
    }
}

fn invalid_cursor(cursor: &str) -> ObjectError {
    ObjectError::Refused(format!(
        "`{}` is no place in a listing",
        cursor.escape_debug()
    ))
}

/// One page.
pub(super) async fn read(
    backends: &Backends,
    folder: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<ObjectPage, ObjectError> {
    let Some(kind) = backends.all().next().map(|backend| backend.client.cursor()) else {
        return Ok(ObjectPage::default());
    };
    let cursor = after.map_or(Ok(Cursor::default()), |after| Cursor::parse(after, kind))?;
    // A backend that the settings no longer have: the next one, from its beginning.
    let Some(backend) = backends
        .all()
        .find(|backend| backend.name() >= cursor.backend.as_str())
    else {
        return Ok(ObjectPage::default());
    };
    let cursor = if backend.name() == cursor.backend {
        cursor
    } else {
        Cursor {
            uploads: cursor.uploads,
            ..at(backend)
        }
    };
    let shown = backend.client.uploads();
    let query = PageQuery {
        backends,
        backend,
        folder,
        cursor: &cursor,
        limit,
    };
    let (mut page, more) = match (cursor.uploads, shown) {
        (false, _) => query.objects().await?,
        (true, Some(shown)) => query.uploads(shown).await?,
        (true, None) => return Err(invalid_cursor(after.unwrap_or_default())),
    };
    let next_backend = backends.all().find(|next| next.name() > backend.name());
    let next = match (more, next_backend) {
        (Some(more), _) => Some(more),
        (None, Some(next)) => Some(Cursor {
            uploads: cursor.uploads,
            ..at(next)
        }),
        (None, None) if !cursor.uploads && shown.is_some() => Some(Cursor {
            uploads: true,
            ..Cursor::default()
        }),
        (None, None) => None,
    };
    page.next = next.map(|next| next.write(kind));
    Ok(page)
}

fn at(backend: &Backend) -> Cursor {
    Cursor {
        backend: backend.name().to_owned(),
        ..Cursor::default()
    }
}

type Page = (ObjectPage, Option<Cursor>);

/// A page of one backend.
#[derive(Clone, Copy)]
struct PageQuery<'a> {
    backends: &'a Backends,
    backend: &'a Arc<Backend>,
    folder: &'a str,
    cursor: &'a Cursor,
    limit: usize,
}

impl PageQuery<'_> {
    async fn objects(self) -> Result<Page, ObjectError> {
        let Self {
            backends,
            backend,
            folder,
            cursor,
            limit,
        } = self;
        let found = backend
            .client
            .objects(&backend.path(folder)?, &cursor.key, limit)
            .await?;
        let mut page = ObjectPage {
            now: found.now,
            ..ObjectPage::default()
        };
        for object in found.objects {
            match (declared(backends, backend, &object.key), object.stored_at) {
                (Some((bucket, key)), Some(stored_at)) => {
                    page.objects.push(Listed {
                        bucket,
                        key,
                        size_bytes: object.size_bytes,
                        stored_at,
                        upload: None,
                    });
                }
                (None, _) | (_, None) => page.unmanaged += 1,
            }
        }
        Ok((page, found.next.map(|key| Cursor { key, ..at(backend) })))
    }

    async fn uploads(self, shown: &dyn Uploads) -> Result<Page, ObjectError> {
        let Self {
            backends,
            backend,
            folder,
            cursor,
            limit,
        } = self;
        let marker = (!cursor.key.is_empty()).then(|| (cursor.key.clone(), cursor.upload.clone()));
        let found = shown
            .page(&backend.path(folder)?, marker, Some(limit))
            .await?;
        let mut page = ObjectPage {
            now: found.now,
            ..ObjectPage::default()
        };
        for OpenUpload { key, id, begun_at } in found.uploads {
            match (declared(backends, backend, &key), begun_at) {
                (Some((bucket, key)), Some(stored_at)) => {
                    page.objects.push(Listed {
                        bucket,
                        key,
                        size_bytes: 0,
                        stored_at,
                        upload: Some(id),
                    });
                }
                (None, _) | (_, None) => page.unmanaged += 1,
            }
        }
        let next = found.next.map(|(key, upload)| Cursor {
            uploads: true,
            key,
            upload,
            ..at(backend)
        });
        Ok((page, next))
    }
}

/// The declared bucket and the key of what lies here, if they lead back here: a bucket that was
/// given a backend of its own later leaves objects behind that no call finds under their name.
fn declared(backends: &Backends, backend: &Arc<Backend>, path: &str) -> Option<(String, String)> {
    let (bucket, key) = backend.declared(path)?;
    let (found, at) = backends.locate(&bucket, &key).ok()?;
    (Arc::ptr_eq(found, backend) && at.as_ref() == path).then_some((bucket, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        let cursor = Cursor {
            uploads: true,
            backend: "out".to_owned(),
            key: "t/x|y|z".to_owned(),
            upload: "a-b".to_owned(),
        };
        assert_eq!(Cursor::parse(&cursor.write("o"), "o").unwrap(), cursor);
        let of_objects = Cursor {
            uploads: false,
            upload: String::new(),
            ..cursor
        };
        assert_eq!(
            Cursor::parse(&of_objects.write("o"), "o").unwrap(),
            of_objects
        );
        assert!(
            Cursor::parse(&of_objects.write("o"), "m").is_err(),
            "another kind of server wrote it"
        );
        assert!(Cursor::parse("x|y", "o").is_err());
    }
}
