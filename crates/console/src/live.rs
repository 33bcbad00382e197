//! Streams of server-sent events: what panels show, once a second.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use tokio::sync::mpsc;

use crate::answer::Refused;
use crate::app::App;
use crate::login::viewer;
use crate::panels::{Panel, panel};
use crate::viewers::{OpenStream, Viewer};

/// Panels of one stream.
const PANELS_MAX: usize = 8;
/// The time that a browser gets to take an event before its stream ends.
const SLOW: Duration = Duration::from_secs(15);
/// Events that wait for a browser.
const WAITING_MAX: usize = 8;

/// `GET /api/live/{panels}`: the panels, with commas between them.
pub(crate) async fn live(
    State(app): State<Arc<App>>,
    Path(names): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let viewer = viewer(&app, &headers)?;
    let mut names: Vec<&str> = names.split(',').collect();
    names.sort_unstable();
    names.dedup();
    let panels: Option<Vec<&'static Panel>> = names.iter().map(|name| panel(name)).collect();
    let panels = panels.filter(|panels| panels.len() <= PANELS_MAX);
    let panels = panels.ok_or_else(|| Refused::malformed("there is no such panel"))?;
    let (open, (events, response)) = (open_stream(&viewer)?, stream());
    tokio::spawn(send(app, viewer, panels, events, open));
    Ok(response)
}

/// One of the viewer's streams. Errors: 429.
pub(crate) fn open_stream(viewer: &Arc<Viewer>) -> Result<OpenStream, Refused> {
    viewer.open_stream().ok_or_else(|| Refused::busy("too many pages of this login are open"))
}

/// A stream of events as an answer, and where events go in.
pub(crate) fn stream() -> (mpsc::Sender<Bytes>, Response) {
    let (events, waiting) = mpsc::channel::<Bytes>(WAITING_MAX);
    let next = |mut waiting: mpsc::Receiver<Bytes>| async move {
        let event = waiting.recv().await?;
        Some((Ok::<_, std::convert::Infallible>(event), waiting))
    };
    let mut response = Response::new(Body::from_stream(stream::unfold(waiting, next)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    (events, response)
}

/// Sends an event; false if the browser is gone or too slow.
pub(crate) async fn tell(events: &mpsc::Sender<Bytes>, event: Bytes) -> bool {
    matches!(tokio::time::timeout(SLOW, events.send(event)).await, Ok(Ok(())))
}

/// An event that says that the login is over, after which a page asks for a new one.
pub(crate) fn over() -> Bytes {
    Bytes::from_static(b"event: over\ndata: {}\n\n")
}

async fn send(
    app: Arc<App>,
    viewer: Arc<Viewer>,
    panels: Vec<&'static Panel>,
    events: mpsc::Sender<Bytes>,
    _open: OpenStream,
) {
    let Ok(engine) = app.engine() else { return };
    let mut interest = app.feeds.watch(&engine.database, &viewer.role, &panels);
    let mut stopping = app.stopping.subscribe();
    loop {
        let news = tokio::select! {
            news = interest.next() => news,
            () = events.closed() => return,
            _ = stopping.wait_for(|stopping| *stopping) => return,
        };
        if !app.viewers.still_holds(&viewer, &engine.database) {
            tell(&events, over()).await;
            return;
        }
        for event in news {
            if !tell(&events, event).await {
                return;
            }
        }
    }
}
