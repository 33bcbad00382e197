//! The files of the pages, part of the binary. Nothing is loaded from elsewhere.

use axum::body::Body;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use halcyon_base::crc32c::crc32c;

use crate::answer::Refused;

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const IMAGE: &str = "image/svg+xml";

/// A file: its path below `/assets/`, its type and its bytes.
type Asset = (&'static str, &'static str, &'static [u8]);

macro_rules! assets {
    ($($path:literal: $kind:expr),* $(,)?) => {
        &[$(($path, $kind, include_bytes!(concat!("../assets/", $path)))),*]
    };
}

/// All files.
const ASSETS: &[Asset] = assets! {
    "index.html": HTML,
    "style.css": STYLE,
    "icon.svg": IMAGE,
    "main.js": SCRIPT,
    "api.js": SCRIPT,
    "dom.js": SCRIPT,
    "format.js": SCRIPT,
    "chart.js": SCRIPT,
    "table.js": SCRIPT,
    "sql.js": SCRIPT,
    "plan.js": SCRIPT,
    "pages/overview.js": SCRIPT,
    "pages/query.js": SCRIPT,
    "pages/sessions.js": SCRIPT,
    "pages/views.js": SCRIPT,
    "pages/statements.js": SCRIPT,
    "pages/memory.js": SCRIPT,
    "pages/workload.js": SCRIPT,
    "pages/machine.js": SCRIPT,
    "vendor/uplot/uplot.js": SCRIPT,
    "vendor/uplot/uplot.css": STYLE,
    "vendor/uplot/LICENSE": TEXT,
};

/// `GET /`: the page, which its scripts fill.
pub(crate) async fn page(headers: HeaderMap) -> Response {
    serve("index.html", &headers)
}

/// `GET /favicon.ico`.
pub(crate) async fn icon(headers: HeaderMap) -> Response {
    serve("icon.svg", &headers)
}

/// `GET /assets/{path}`.
pub(crate) async fn asset(Path(path): Path<String>, headers: HeaderMap) -> Response {
    serve(&path, &headers)
}

fn serve(path: &str, headers: &HeaderMap) -> Response {
    let Some((_, kind, bytes)) = ASSETS.iter().find(|(name, ..)| *name == path) else {
        return Refused::new(StatusCode::NOT_FOUND, "there is no such file").into_response();
    };
    let tag = format!("\"{:08x}\"", crc32c(bytes));
    let known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| known == tag.as_str());
    let mut response = match known {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => Response::new(Body::from(*bytes)),
    };
    let answered = response.headers_mut();
    answered.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    answered.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    answered.insert(header::ETAG, HeaderValue::from_str(&tag).expect("digits in quotes"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The folder of the files.
    fn folder() -> std::path::PathBuf {
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("assets")
    }

    #[test]
    fn every_file_is_served_and_names_only_files_that_are_there() {
        let mut open = vec![folder()];
        while let Some(next) = open.pop() {
            for entry in std::fs::read_dir(next).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    open.push(path);
                    continue;
                }
                let name = path.strip_prefix(folder()).unwrap().to_str().unwrap().to_owned();
                let served = ASSETS.iter().any(|(served, ..)| *served == name);
                assert!(served || name.ends_with(".md"), "{name} is not served");
            }
        }
        for (name, kind, bytes) in ASSETS.iter().filter(|(_, kind, _)| *kind == SCRIPT) {
            assert!(*kind == SCRIPT && !name.is_empty());
            let text = std::str::from_utf8(bytes).unwrap();
            for import in text.lines().filter(|line| line.starts_with("import ")) {
                let from = import.split('"').nth(1).expect("a path in quotes");
                let base = folder().join(name);
                assert!(base.parent().unwrap().join(from).exists(), "{name}: {from}");
            }
        }
    }

    #[test]
    fn pages_name_no_other_host_and_have_nothing_inline() {
        for (name, _, bytes) in ASSETS.iter().filter(|(name, ..)| !name.starts_with("vendor/")) {
            let text = std::str::from_utf8(bytes).unwrap();
            let elsewhere = text.lines().filter(|line| {
                line.contains("://") && !line.contains("http://www.w3.org/2000/svg")
            });
            assert_eq!(elsewhere.collect::<Vec<_>>(), [""; 0], "{name}");
            for inline in ["style=\"", "onclick=", "innerHTML", "eval(", "javascript:"] {
                assert!(!text.contains(inline), "{name} has {inline}");
            }
        }
    }
}
