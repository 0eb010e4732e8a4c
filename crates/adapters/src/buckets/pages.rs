//! Pages of all places in one row: their objects, place by place, and then their open uploads. A
//! page is one request; what it gives is at most a thousand entries. Must not show anything under a
//! name that does not lead back to where it lies.

use super::client::{OpenUpload, Uploads};
use super::places::{Location, Places};
use counterstep_kernel::ports::{Listed, ObjectError, ObjectPage};
use std::sync::Arc;

/// Where a page begins: `{kind}|{place}||{key}` or `u|{place}|{upload}|{key}`, with the keys of the
/// real buckets, or with what the server takes in their stead; the kind is that of the server. The
/// key comes last: those of others may hold anything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Cursor {
    uploads: bool,
    place: String,
    key: String,
    upload: String,
}

impl Cursor {
    fn parse(text: &str, of_objects: &str) -> Result<Self, ObjectError> {
        let mut parts = text.splitn(4, '|');
        let mut part = || parts.next().unwrap_or_default().to_owned();
        let (kind, place, upload, key) = (part(), part(), part(), part());
        match kind.as_str() {
            kind if kind == of_objects || kind == "u" => Ok(Self {
                uploads: kind == "u",
                place,
                key,
                upload,
            }),
            _ => Err(no_place(text)),
        }
    }

    fn write(&self, of_objects: &str) -> String {
        let kind = if self.uploads { "u" } else { of_objects };
        format!("{kind}|{}|{}|{}", self.place, self.upload, self.key)
    }
}

fn no_place(cursor: &str) -> ObjectError {
    ObjectError::Refused(format!(
        "`{}` is no place in a listing",
        cursor.escape_debug()
    ))
}

/// One page.
pub(super) async fn read(
    places: &Places,
    folder: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<ObjectPage, ObjectError> {
    let Some(kind) = places.all().next().map(|place| place.client.cursor()) else {
        return Ok(ObjectPage::default());
    };
    let cursor = after.map_or(Ok(Cursor::default()), |after| Cursor::parse(after, kind))?;
    // A place that the settings no longer have: the next one, from its beginning.
    let Some(place) = places
        .all()
        .find(|place| place.name() >= cursor.place.as_str())
    else {
        return Ok(ObjectPage::default());
    };
    let cursor = if place.name() == cursor.place {
        cursor
    } else {
        Cursor {
            uploads: cursor.uploads,
            ..at(place)
        }
    };
    let shown = place.client.uploads();
    let query = PageQuery {
        places,
        place,
        folder,
        cursor: &cursor,
        limit,
    };
    let (mut page, more) = match (cursor.uploads, shown) {
        (false, _) => query.objects().await?,
        (true, Some(shown)) => query.uploads(shown).await?,
        (true, None) => return Err(no_place(after.unwrap_or_default())),
    };
    let next_place = places.all().find(|next| next.name() > place.name());
    let next = match (more, next_place) {
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

fn at(place: &Location) -> Cursor {
    Cursor {
        place: place.name().to_owned(),
        ..Cursor::default()
    }
}

type Page = (ObjectPage, Option<Cursor>);

/// A page of one place.
#[derive(Clone, Copy)]
struct PageQuery<'a> {
    places: &'a Places,
    place: &'a Arc<Location>,
    folder: &'a str,
    cursor: &'a Cursor,
    limit: usize,
}

impl PageQuery<'_> {
    async fn objects(self) -> Result<Page, ObjectError> {
        let Self {
            places,
            place,
            folder,
            cursor,
            limit,
        } = self;
        let found = place
            .client
            .objects(&place.path(folder)?, &cursor.key, limit)
            .await?;
        let mut page = ObjectPage {
            now: found.now,
            ..ObjectPage::default()
        };
        for object in found.objects {
            match (declared(places, place, &object.key), object.stored_at) {
                (Some((bucket, key)), Some(stored_at)) => {
                    page.objects.push(Listed {
                        bucket,
                        key,
                        size_bytes: object.size_bytes,
                        stored_at,
                        upload: None,
                    });
                }
                (None, _) | (_, None) => page.foreign += 1,
            }
        }
        Ok((page, found.next.map(|key| Cursor { key, ..at(place) })))
    }

    async fn uploads(self, shown: &dyn Uploads) -> Result<Page, ObjectError> {
        let Self {
            places,
            place,
            folder,
            cursor,
            limit,
        } = self;
        let marker = (!cursor.key.is_empty()).then(|| (cursor.key.clone(), cursor.upload.clone()));
        let found = shown
            .page(&place.path(folder)?, marker, Some(limit))
            .await?;
        let mut page = ObjectPage {
            now: found.now,
            ..ObjectPage::default()
        };
        for OpenUpload { key, id, begun_at } in found.uploads {
            match (declared(places, place, &key), begun_at) {
                (Some((bucket, key)), Some(stored_at)) => {
                    page.objects.push(Listed {
                        bucket,
                        key,
                        size_bytes: 0,
                        stored_at,
                        upload: Some(id),
                    });
                }
                (None, _) | (_, None) => page.foreign += 1,
            }
        }
        let next = found.next.map(|(key, upload)| Cursor {
            uploads: true,
            key,
            upload,
            ..at(place)
        });
        Ok((page, next))
    }
}

/// The declared bucket and the key of what lies here, if they lead back here: a bucket that was
/// given a place of its own later leaves objects behind that no call finds under their name.
fn declared(places: &Places, place: &Arc<Location>, path: &str) -> Option<(String, String)> {
    let (bucket, key) = place.declared(path)?;
    let (found, at) = places.locate(&bucket, &key).ok()?;
    (Arc::ptr_eq(found, place) && at.as_ref() == path).then_some((bucket, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        let cursor = Cursor {
            uploads: true,
            place: "out".to_owned(),
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
