//! What pages load beside their HTML: styles, scripts, the icon. Each is in the program, under a name that
//! changes with what it holds, so that browsers keep it. Must not hold anything that was made elsewhere
//! without its licence in `assets/README.md`.

use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG};
use actix_web::{HttpResponse, web};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use std::sync::LazyLock;

/// A file of the program.
pub(crate) struct Asset {
    /// As it is asked for, with the digest of what it holds.
    pub(crate) name: String,
    media_type: &'static str,
    bytes: &'static [u8],
}

macro_rules! asset {
    ($stem:literal, $end:literal, $media:literal, $file:literal) => {
        LazyLock::new(|| {
            Asset::of(
                $stem,
                $end,
                $media,
                include_bytes!(concat!("../assets/", $file)),
            )
        })
    };
}

pub(crate) static STYLE: LazyLock<Asset> = asset!("ui", "css", "text/css; charset=utf-8", "ui.css");
pub(crate) static SCRIPT: LazyLock<Asset> =
    asset!("ui", "js", "text/javascript; charset=utf-8", "ui.js");
pub(crate) static HTMX: LazyLock<Asset> = asset!(
    "htmx",
    "js",
    "text/javascript; charset=utf-8",
    "htmx-2.0.11.min.js"
);
pub(crate) static MORPH: LazyLock<Asset> = asset!(
    "idiomorph",
    "js",
    "text/javascript; charset=utf-8",
    "idiomorph-0.8.0.min.js"
);
pub(crate) static ICON: LazyLock<Asset> = asset!("icon", "svg", "image/svg+xml", "icon.svg");

impl Asset {
    fn of(stem: &str, end: &str, media_type: &'static str, bytes: &'static [u8]) -> Self {
        let digest = URL_SAFE_NO_PAD.encode(&Sha256::digest(bytes)[..9]);
        Self {
            name: format!("{stem}.{digest}.{end}"),
            media_type,
            bytes,
        }
    }
}

pub(crate) async fn get(name: web::Path<String>) -> HttpResponse {
    let all = [&*STYLE, &*SCRIPT, &*HTMX, &*MORPH, &*ICON];
    let Some(asset) = all.into_iter().find(|asset| asset.name == *name) else {
        return HttpResponse::NotFound().finish();
    };
    HttpResponse::Ok()
        .insert_header((CONTENT_TYPE, asset.media_type))
        .insert_header((CACHE_CONTROL, "public, max-age=31536000, immutable"))
        .insert_header((ETAG, format!("\"{}\"", asset.name)))
        .body(asset.bytes)
}
