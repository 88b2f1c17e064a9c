//! Style, script and icon of the pages, a part of the program: nothing is fetched from elsewhere.

use std::sync::LazyLock;

use axum::{
    extract::{Path, Query},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::{core::id::hex, http::problem::Problem};

/// Letters of a hash that name a version.
const SHORT: usize = 16;

static ASSETS: LazyLock<[Asset; 3]> = LazyLock::new(|| {
    [
        Asset::new("console.css", "text/css; charset=utf-8", include_str!("console.css")),
        Asset::new("console.js", "text/javascript; charset=utf-8", include_str!("console.js")),
        Asset::new("icon.svg", "image/svg+xml", include_str!("icon.svg")),
    ]
});

struct Asset {
    name: &'static str,
    kind: &'static str,
    text: &'static str,
    hash: String,
}

/// The version that a page asks for.
#[derive(Deserialize)]
pub(super) struct Version {
    v: Option<String>,
}

impl Asset {
    fn new(name: &'static str, kind: &'static str, text: &'static str) -> Self {
        let hash = hex(&Sha256::digest(text))[..SHORT].to_owned();
        Self { name, kind, text, hash }
    }
}

/// Where a page finds one, in the version of this program.
pub(super) fn address(name: &str) -> String {
    let hash = ASSETS.iter().find(|asset| asset.name == name).map_or("", |asset| &asset.hash);
    format!("/console/assets/{name}?v={hash}")
}

pub(super) async fn serve(
    Path(name): Path<String>,
    Query(version): Query<Version>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let asset = ASSETS.iter().find(|asset| asset.name == name);
    let asset = asset.ok_or_else(|| Problem::plain(StatusCode::NOT_FOUND))?;
    let tag = format!("\"{}\"", asset.hash);
    // What is named by its hash never changes.
    let is_named = version.v.as_deref() == Some(asset.hash.as_str());
    let cache = if is_named { "public, max-age=31536000, immutable" } else { "no-cache" };
    let about = [(header::ETAG, tag.clone()), (header::CACHE_CONTROL, cache.to_owned())];
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    if known.is_some_and(|known| known.split(',').any(|one| one.trim() == tag)) {
        return Ok((StatusCode::NOT_MODIFIED, about).into_response());
    }
    Ok((about, [(header::CONTENT_TYPE, asset.kind)], asset.text).into_response())
}
