//! Pages of all places in one row: their objects, place by place, and then their open uploads. A page is one request; what
//! it gives is at most a thousand entries. Must not show anything under a name that does not lead back to where it lies.

use super::places::{Location, Places};
use super::requests::{self, OpenUpload};
use counterstep_kernel::ports::{Listed, ObjectError, ObjectPage};
use counterstep_kernel::times::read_rfc3339;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// Where a page begins: `o|{place}||{key}` or `u|{place}|{upload}|{key}`, with the keys of the real buckets. The key comes
/// last: those of others may hold anything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Cursor {
    uploads: bool,
    place: String,
    key: String,
    upload: String,
}

impl Cursor {
    fn parse(text: &str) -> Result<Self, ObjectError> {
        let mut parts = text.splitn(4, '|');
        let mut part = || parts.next().unwrap_or_default().to_owned();
        let (kind, place, upload, key) = (part(), part(), part(), part());
        match kind.as_str() {
            "o" | "u" => Ok(Self { uploads: kind == "u", place, key, upload }),
            _ => Err(ObjectError::Refused(format!("`{}` is no place in a listing", text.escape_debug()))),
        }
    }

    fn write(&self) -> String {
        let kind = if self.uploads { "u" } else { "o" };
        format!("{kind}|{}|{}|{}", self.place, self.upload, self.key)
    }
}

/// One page.
pub(super) async fn read(
    places: &Places,
    folder: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<ObjectPage, ObjectError> {
    let cursor = after.map_or(Ok(Cursor::default()), Cursor::parse)?;
    // A place that the settings no longer have: the next one, from its beginning.
    let Some(place) = places.all().find(|place| place.name() >= cursor.place.as_str()) else {
        return Ok(ObjectPage::default());
    };
    let cursor = if place.name() == cursor.place { cursor } else { Cursor { uploads: cursor.uploads, ..at(place) } };
    let (mut page, more) = match cursor.uploads {
        false => objects(places, place, folder, &cursor, limit).await?,
        true => uploads(places, place, folder, &cursor, limit).await?,
    };
    let next_place = places.all().find(|next| next.name() > place.name());
    let next = match (more, next_place) {
        (Some(more), _) => Some(more),
        (None, Some(next)) => Some(Cursor { uploads: cursor.uploads, ..at(next) }),
        (None, None) if !cursor.uploads => Some(Cursor { uploads: true, ..Cursor::default() }),
        (None, None) => None,
    };
    page.next = next.map(|next| next.write());
    Ok(page)
}

fn at(place: &Location) -> Cursor {
    Cursor { place: place.name().to_owned(), ..Cursor::default() }
}

type Page = (ObjectPage, Option<Cursor>);

async fn objects(
    places: &Places,
    place: &Arc<Location>,
    folder: &str,
    cursor: &Cursor,
    limit: usize,
) -> Result<Page, ObjectError> {
    let found = requests::objects_page(place, &place.path(folder)?, &cursor.key, limit).await?;
    let last = found.page.contents.last().map(|object| object.key.clone()).filter(|_| found.page.is_truncated);
    let mut page = ObjectPage { now: clock(&found.date), ..ObjectPage::default() };
    for object in found.page.contents {
        let stored_at = read_rfc3339(&object.last_modified);
        match (declared(places, place, &object.key), stored_at) {
            (Some((bucket, key)), Some(stored_at)) => {
                page.objects.push(Listed { bucket, key, size_bytes: object.size, stored_at, upload: None });
            }
            (None, _) | (_, None) => page.foreign += 1,
        }
    }
    Ok((page, last.map(|key| Cursor { key, ..at(place) })))
}

async fn uploads(
    places: &Places,
    place: &Arc<Location>,
    folder: &str,
    cursor: &Cursor,
    limit: usize,
) -> Result<Page, ObjectError> {
    let marker = (!cursor.key.is_empty()).then(|| (cursor.key.clone(), cursor.upload.clone()));
    let found = requests::uploads_page(place, &place.path(folder)?, marker, Some(limit)).await?;
    let mut page = ObjectPage { now: clock(&found.date), ..ObjectPage::default() };
    for OpenUpload { key, upload_id, initiated } in found.page.uploads {
        let stored_at = initiated.as_deref().and_then(read_rfc3339);
        match (declared(places, place, &key), stored_at) {
            (Some((bucket, key)), Some(stored_at)) => {
                page.objects.push(Listed { bucket, key, size_bytes: 0, stored_at, upload: Some(upload_id) });
            }
            (None, _) | (_, None) => page.foreign += 1,
        }
    }
    let next = found.page.next.map(|(key, upload)| Cursor { uploads: true, key, upload, ..at(place) });
    Ok((page, next))
}

/// The declared bucket and the key of what lies here, if they lead back here: a bucket that was given a place of its own
/// later leaves objects behind that nobody would find under their name.
fn declared(places: &Places, place: &Arc<Location>, path: &str) -> Option<(String, String)> {
    let (bucket, key) = place.declared(path)?;
    let (found, at) = places.locate(&bucket, &key).ok()?;
    (Arc::ptr_eq(found, place) && at.as_ref() == path).then_some((bucket, key))
}

/// The server's clock in its answer. Without one nothing is old: microseconds since 1970-01-01 UTC.
fn clock(date: &str) -> i64 {
    let read = httpdate::parse_http_date(date).ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    read.and_then(|since| i64::try_from(since.as_micros()).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        let cursor =
            Cursor { uploads: true, place: "out".to_owned(), key: "t/x|y|z".to_owned(), upload: "a-b".to_owned() };
        assert_eq!(Cursor::parse(&cursor.write()).unwrap(), cursor);
        assert!(Cursor::parse("x|y").is_err());
        assert_eq!(clock("Thu, 01 Jan 1970 00:00:01 GMT"), 1_000_000);
        assert_eq!(clock("soon"), 0);
    }
}
