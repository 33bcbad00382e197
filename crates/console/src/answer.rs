//! Answers: JSON, and refusals with a status and a reason that can be shown.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use halcyon::SqlError;
use serde_json::{Value as Json, json};

/// Why a request is refused.
#[derive(Debug)]
pub(crate) struct Refused {
    pub status: StatusCode,
    error: Json,
    /// Whether the client may answer with HTTP Basic.
    asks_for_basic: bool,
}

impl Refused {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        let error = json!({ "message": message.into() });
        Refused { status, error, asks_for_basic: false }
    }

    pub(crate) fn malformed(message: impl Into<String>) -> Self {
        Refused::new(StatusCode::BAD_REQUEST, message)
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Refused::new(StatusCode::FORBIDDEN, message)
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Refused::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }

    pub(crate) fn busy(message: impl Into<String>) -> Self {
        Refused::new(StatusCode::TOO_MANY_REQUESTS, message)
    }

    pub(crate) fn not_logged_in() -> Self {
        Refused::new(StatusCode::UNAUTHORIZED, "log in first")
    }

    /// An error of SQL under a status of HTTP.
    pub(crate) fn sql(status: StatusCode, error: &SqlError) -> Self {
        Refused { status, error: of_sql(error), asks_for_basic: false }
    }

    /// 401 with the offer of HTTP Basic, for scrapers.
    pub(crate) fn basic(message: impl Into<String>) -> Self {
        Refused { asks_for_basic: true, ..Refused::new(StatusCode::UNAUTHORIZED, message) }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut response = with_status(self.status, &json!({ "error": self.error }));
        if self.asks_for_basic {
            let offer = HeaderValue::from_static("Basic realm=\"halcyon\", charset=\"UTF-8\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, offer);
        }
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// An error of SQL, as pages show it.
pub(crate) fn of_sql(error: &SqlError) -> Json {
    let fields = error.fields();
    json!({
        "state": error.state().as_str(),
        "message": error.message(),
        "detail": fields.detail,
        "hint": fields.hint,
        "position": fields.position,
    })
}

/// An answer in JSON, which no cache keeps.
pub(crate) fn of_json(value: &Json) -> Response {
    with_status(StatusCode::OK, value)
}

fn with_status(status: StatusCode, value: &Json) -> Response {
    let mut response = Response::new(Body::from(value.to_string()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
