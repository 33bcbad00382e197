//! Login and logout, and how a request shows whose it is.

use std::sync::Arc;

use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use halcyon::SERVER_VERSION;
use serde_json::{Value as Json, json};

use crate::answer::{Refused, of_json};
use crate::app::App;
use crate::guard::{Peer, require_own_origin};
use crate::viewers::{Viewer, is_same_token};

/// Header in which scripts repeat the form token.
const FORM_TOKEN: &str = "x-halcyon-token";
/// The longest name of a role and the longest password that are looked at.
const NAME_BYTES_MAX: usize = 1_024;

/// Name of the cookie: browsers send a cookie to every port of a host, and two servers must not share one.
fn cookie_name(app: &App) -> String {
    match app.is_tls() {
        true => format!("__Host-halcyon-{}", app.port),
        false => format!("halcyon-{}", app.port),
    }
}

fn cookie(app: &App, token: &str, is_over: bool) -> HeaderValue {
    let secure = if app.is_tls() { "; Secure" } else { "" };
    let age = if is_over { "; Max-Age=0" } else { "" };
    let name = cookie_name(app);
    let text = format!("{name}={token}; Path=/; HttpOnly; SameSite=Strict{secure}{age}");
    HeaderValue::from_str(&text).expect("tokens are of letters, digits, - and _")
}

fn token<'a>(app: &App, headers: &'a HeaderMap) -> Option<&'a str> {
    let name = cookie_name(app);
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs =
        cookies.flat_map(|text| text.split(';')).filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

/// The viewer whose request this is. Errors: 401, 503.
pub(crate) fn viewer(app: &App, headers: &HeaderMap) -> Result<Arc<Viewer>, Refused> {
    let engine = app.engine()?;
    let token = token(app, headers).ok_or_else(Refused::not_logged_in)?;
    app.viewers.find(&engine.database, token).ok_or_else(Refused::not_logged_in)
}

/// The viewer and the body of a request that changes something. Errors: 401, 403 without the form token or
/// from another site, 400, 408, 413, 415.
pub(crate) async fn posted(app: &App, request: Request) -> Result<(Arc<Viewer>, Json), Refused> {
    require_own_origin(app, request.headers())?;
    let viewer = viewer(app, request.headers())?;
    let given = request.headers().get(FORM_TOKEN).and_then(|value| value.to_str().ok());
    if !given.is_some_and(|given| is_same_token(given, &viewer.form_token)) {
        return Err(Refused::forbidden("the request does not repeat the token of the page"));
    }
    Ok((viewer, read_json(app, request).await?))
}

/// The JSON of a body.
async fn read_json(app: &App, request: Request) -> Result<Json, Refused> {
    let is_json = request.headers().get(header::CONTENT_TYPE).is_some_and(|value| {
        let text = value.to_str().unwrap_or_default();
        text.split(';').next().unwrap_or_default().trim() == "application/json"
    });
    if !is_json {
        let message = "the body must be application/json";
        return Err(Refused::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    let most = app.config.body_bytes_max;
    let reading = to_bytes(request.into_body(), most);
    let bytes = match tokio::time::timeout(app.config.request_timeout, reading).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(_)) => {
            let message = format!("a body has {most} bytes at most");
            return Err(Refused::new(StatusCode::PAYLOAD_TOO_LARGE, message));
        }
        Err(_) => {
            return Err(Refused::new(StatusCode::REQUEST_TIMEOUT, "the body did not come in time"));
        }
    };
    serde_json::from_slice(&bytes).map_err(|error| Refused::malformed(error.to_string()))
}

/// A text in a body. Errors: 400.
pub(crate) fn text<'a>(body: &'a Json, name: &str) -> Result<&'a str, Refused> {
    body[name].as_str().ok_or_else(|| Refused::malformed(format!("\"{name}\" is missing")))
}

/// `POST /api/login`: a role and its password become a cookie.
pub(crate) async fn log_in(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, Refused> {
    require_own_origin(&app, request.headers())?;
    let engine = app.engine()?;
    let peer = peer(&request)?;
    let before = token(&app, request.headers()).map(str::to_owned);
    let body = read_json(&app, request).await?;
    let (role, password) = (text(&body, "role")?, body["password"].as_str().unwrap_or_default());
    if role.len() > NAME_BYTES_MAX || password.len() > NAME_BYTES_MAX || role.contains('\0') {
        return Err(Refused::malformed("role or password is too long"));
    }
    let unauthorized = |error: &_| Refused::sql(StatusCode::UNAUTHORIZED, error);
    let verifier = engine.database.password_verifier(role);
    judge(&app, role, password, peer).await?;
    engine.database.session_as(role).map_err(|error| unauthorized(&error))?;
    let seat = engine.logins.take_seat(role);
    let seat = seat.map_err(|error| Refused::sql(StatusCode::SERVICE_UNAVAILABLE, &error))?;
    if let Some(before) = before {
        app.viewers.remove(&before);
    }
    let added = app.viewers.add(verifier, role, peer.0.ip(), seat);
    let (viewer, token) =
        added.ok_or_else(|| Refused::unavailable("too many people are logged in"))?;
    let mut response = of_json(&about(&app, &viewer)?);
    response.headers_mut().insert(header::SET_COOKIE, cookie(&app, &token, false));
    Ok(response)
}

async fn judge(app: &App, role: &str, password: &str, peer: Peer) -> Result<(), Refused> {
    let judged = app.engine()?.logins.judge(role, password, peer.0.ip(), app.is_tls()).await;
    judged.map_err(|error| Refused::sql(StatusCode::UNAUTHORIZED, &error))
}

/// The client's address, which the listener notes.
pub(crate) fn peer(request: &Request) -> Result<Peer, Refused> {
    let peer = request.extensions().get::<Peer>().copied();
    peer.ok_or_else(|| Refused::malformed("the client has no address"))
}

/// `POST /api/logout`.
pub(crate) async fn log_out(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, Refused> {
    let token = token(&app, request.headers()).map(str::to_owned);
    posted(&app, request).await?;
    if let Some(token) = token {
        let app = Arc::clone(&app);
        // Ends sessions, which may have to roll back.
        let ended = tokio::task::spawn_blocking(move || app.viewers.remove(&token)).await;
        ended.map_err(|_| Refused::unavailable("the server is ending"))?;
    }
    let mut response = of_json(&json!({}));
    response.headers_mut().insert(header::SET_COOKIE, cookie(&app, "", true));
    Ok(response)
}

/// `GET /api/me`: whose page this is.
pub(crate) async fn me(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    Ok(of_json(&about(&app, &*viewer(&app, &headers)?)?))
}

fn about(app: &App, viewer: &Viewer) -> Result<Json, Refused> {
    let database = &app.engine()?.database;
    Ok(json!({
        "role": viewer.role,
        "superuser": database.is_superuser(&viewer.role),
        "token": viewer.form_token,
        "version": SERVER_VERSION,
        "panels": crate::panels::described(),
    }))
}

/// `GET /api/greeting`: what the login page needs to know before anybody has logged in.
pub(crate) async fn greeting(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, Refused> {
    let peer = peer(&request)?;
    let engine = app.engine()?;
    // The first superuser's name is told only to who could act under it anyway.
    let first = engine.database.first_superuser();
    let trusted = engine.logins.trusts(&first, peer.0.ip()).then_some(first);
    Ok(of_json(&json!({ "trusted": trusted })))
}

/// Lets scrapers in: a client of this machine whom the wire would trust as the first superuser, or a superuser by
/// HTTP Basic. Errors: 401, 403.
pub(crate) async fn require_scraper(
    app: &App,
    headers: &HeaderMap,
    peer: Peer,
) -> Result<(), Refused> {
    let engine = app.engine()?;
    let (role, password) = match basic(headers) {
        Some(given) => given,
        None if engine.logins.trusts(&engine.database.first_superuser(), peer.0.ip()) => {
            return Ok(());
        }
        None => return Err(Refused::basic("metrics are for superusers; use HTTP Basic")),
    };
    if role.len() > NAME_BYTES_MAX || password.len() > NAME_BYTES_MAX {
        return Err(Refused::malformed("role or password is too long"));
    }
    judge(app, &role, &password, peer).await.map_err(|refused| match refused.status {
        StatusCode::UNAUTHORIZED => Refused::basic("role or password is wrong"),
        _ => refused,
    })?;
    match engine.database.is_superuser(&role) && engine.database.may_log_in(&role) {
        true => Ok(()),
        false => Err(Refused::forbidden("metrics are for superusers")),
    }
}

/// Role and password of HTTP Basic.
fn basic(headers: &HeaderMap) -> Option<(String, String)> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, code) = value.split_once(' ')?;
    let code = scheme.eq_ignore_ascii_case("basic").then_some(code.trim())?;
    let text = String::from_utf8(STANDARD.decode(code).ok()?).ok()?;
    let (role, password) = text.split_once(':')?;
    Some((role.to_owned(), password.to_owned()))
}
