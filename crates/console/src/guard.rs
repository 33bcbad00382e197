//! Rules that hold for every request: which Host, which Origin, and the headers of every answer.
//!
//! A page of another site cannot read anything here (no CORS), cannot send JSON here without asking first
//! (no CORS again), has no cookie (`SameSite=Strict`), no token, and the wrong `Origin`. A name that some
//! other site resolves to 127.0.0.1 comes with the wrong `Host`.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use halcyon_server::is_loopback;

use crate::answer::Refused;
use crate::app::App;

/// The address of a request's client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub SocketAddr);

/// What pages may load and do: files of this server, by names alone.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// Headers of every answer.
const HEADERS: &[(&str, &str)] = &[
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), microphone=(), geolocation=()"),
];

/// Refuses requests under a foreign name, and dresses the answers.
pub(crate) async fn around(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let checked = require_own_host(&app, request.headers());
    let mut response = match checked {
        Ok(()) => next.run(request).await,
        Err(refused) => refused.into_response(),
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(*name, HeaderValue::from_static(value));
    }
    response
}

/// 421 unless the request's Host is one that this machine is called by. On an address that other machines
/// reach, the certificate says which names are right.
fn require_own_host(app: &App, headers: &HeaderMap) -> Result<(), Refused> {
    let host = host(headers).ok_or_else(|| Refused::malformed("exactly one Host is needed"))?;
    if !is_loopback(app.config.listen.ip()) || is_local_name(host) {
        return Ok(());
    }
    let message = "this console answers to localhost, 127.0.0.1 and [::1] alone";
    Err(Refused::new(StatusCode::MISDIRECTED_REQUEST, message))
}

fn host(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all(header::HOST).iter();
    let only = all.next()?;
    if all.next().is_some() { None } else { only.to_str().ok() }
}

/// Whether a Host is `localhost` or an address of this machine's own, with any port: a tunnel's end has
/// another port than this server.
fn is_local_name(host: &str) -> bool {
    let digits = |port: &str| port.chars().all(|c| c.is_ascii_digit());
    let name = match host.rsplit_once(':') {
        Some((name, port)) if digits(port) && !name.ends_with(':') => name,
        _ => host,
    };
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || bare.parse().is_ok_and(|ip: IpAddr| is_loopback(ip))
}

/// 403 unless a request that changes something comes from a page of this server, or from no page at all.
pub(crate) fn require_own_origin(app: &App, headers: &HeaderMap) -> Result<(), Refused> {
    if let Some(origin) = headers.get(header::ORIGIN) {
        let scheme = if app.is_tls() { "https" } else { "http" };
        let own = host(headers).map(|host| format!("{scheme}://{host}"));
        if own.as_deref() != origin.to_str().ok() {
            return Err(Refused::forbidden("the request comes from another site"));
        }
    }
    match headers.get("sec-fetch-site").map(HeaderValue::as_bytes) {
        None | Some(b"same-origin" | b"none") => Ok(()),
        Some(_) => Err(Refused::forbidden("the request comes from another site")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_sites_are_no_local_names() {
        let local = ["localhost", "LOCALHOST:8433", "127.0.0.1", "127.0.0.1:1", "127.8.9.1:80"];
        for host in local.into_iter().chain(["[::1]", "[::1]:8433"]) {
            assert!(is_local_name(host), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example:8433", "10.0.0.1", "[::2]:1", "", ":1"]
        {
            assert!(!is_local_name(host), "{host}");
        }
    }
}
