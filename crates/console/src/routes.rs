//! Which path is whose.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

use crate::answer::Refused;
use crate::app::App;
use crate::{assets, catalog, follow, guard, live, login, metrics, run};

/// All routes, behind the rules for every request.
pub(crate) fn router(app: &Arc<App>) -> Router {
    Router::new()
        .route("/", get(assets::page))
        .route("/assets/{*path}", get(assets::asset))
        .route("/favicon.ico", get(assets::icon))
        .route("/health", get(health))
        .route("/ready", get(ready))
        .route("/metrics", get(metrics::metrics))
        .route("/api/greeting", get(login::greeting))
        .route("/api/login", post(login::log_in))
        .route("/api/logout", post(login::log_out))
        .route("/api/me", get(login::me))
        .route("/api/live/{panels}", get(live::live))
        .route("/api/follow/{schema}/{view}", get(follow::follow))
        .route("/api/catalog", get(catalog::catalog))
        .route("/api/machine", get(catalog::machine))
        .route("/api/run", post(run::run))
        .route("/api/cancel", post(run::cancel))
        .fallback(nothing)
        .layer(from_fn_with_state(Arc::clone(app), guard::around))
        .with_state(Arc::clone(app))
}

/// `GET /health`: the process lives.
async fn health() -> &'static str {
    "ok\n"
}

/// `GET /ready`: statements are taken. 503 while the database is being opened and while the server ends.
async fn ready(State(app): State<Arc<App>>) -> Response {
    match app.engine() {
        Ok(_) => "ready\n".into_response(),
        Err(refused) => refused.into_response(),
    }
}

async fn nothing() -> Refused {
    Refused::new(axum::http::StatusCode::NOT_FOUND, "there is nothing at this address")
}
