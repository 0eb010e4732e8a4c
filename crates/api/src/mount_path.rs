//! Where this interface is mounted, as each request finds it: the addresses in its answer begin with
//! that path. Must not serve anything.

use actix_web::{HttpMessage, HttpRequest};

/// The part of a request's path that leads to this interface: empty, where it is a server's own.
#[derive(Debug, Clone)]
struct MountPath(String);

/// Notes where this interface is mounted: in a scope, that has been matched with already, or at
/// `path` of its own server. Gives the rest of the request's path.
pub(crate) fn note_mount_path(request: &HttpRequest, path: &str) -> String {
    let rest = request.match_info().unprocessed();
    let rest = rest.strip_prefix(path).unwrap_or(rest).to_owned();
    // As the client wrote it: what was matched is decoded, all but the slashes.
    let whole = request.uri().path();
    let segments = rest.matches('/').count();
    let mount = match segments.checked_sub(1) {
        Some(before) => whole.rmatch_indices('/').nth(before),
        None => None,
    };
    let mount = mount.map_or("", |(at, _)| &whole[..at]).to_owned();
    request.extensions_mut().insert(MountPath(mount));
    rest
}

/// An address of this interface, as a client of this request reaches it.
pub(crate) fn address(request: &HttpRequest, path: &str) -> String {
    let extensions = request.extensions();
    let mount = extensions.get::<MountPath>();
    format!("{}{path}", mount.map_or("", |MountPath(mount)| mount))
}
