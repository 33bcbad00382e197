//! The way to the collector: HTTP/1.1, plain or under TLS, over a connection that is kept.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use crate::config::{Config, StartError};

/// The most bytes of an answer.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Where systems keep the certificates that they trust.
const SYSTEM_CERTIFICATES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Sends requests to the collector.
pub(crate) struct Post {
    endpoint: Uri,
    headers: HeaderMap,
    timeout: Duration,
    tls: Option<TlsConnector>,
    kept: Option<SendRequest<Full<Bytes>>>,
}

/// A request that has not been taken.
pub(crate) struct Undelivered {
    pub reason: String,
    /// Whether another try makes sense, and after what time if the collector says so.
    pub retry: Option<Option<Duration>>,
}

impl Undelivered {
    /// A failure that may be over soon.
    fn soon(reason: impl ToString) -> Self {
        Undelivered { reason: reason.to_string(), retry: Some(None) }
    }
}

impl Post {
    pub fn new(config: &Config) -> Result<Post, StartError> {
        let mut headers: HeaderMap = config.headers.iter().cloned().collect();
        let own = [
            (header::CONTENT_TYPE, "application/x-protobuf".to_owned()),
            (header::USER_AGENT, concat!("halcyon/", env!("CARGO_PKG_VERSION")).to_owned()),
            (header::HOST, config.endpoint.authority().map_or("", |own| own.as_str()).to_owned()),
        ];
        for (name, value) in own {
            headers.insert(name, HeaderValue::from_str(&value).expect("an address and constants"));
        }
        let tls = match config.endpoint.scheme_str() {
            Some("https") => Some(connector(config.certificate.as_deref())?),
            _ => None,
        };
        let (endpoint, timeout) = (config.endpoint.clone(), config.timeout);
        Ok(Post { endpoint, headers, timeout, tls, kept: None })
    }

    /// Sends a request's body. Returns the body of the collector's answer.
    pub async fn send(&mut self, body: Bytes) -> Result<Bytes, Undelivered> {
        let timeout = self.timeout;
        let sent = tokio::time::timeout(timeout, async {
            // A connection that was kept may have been closed by the other side at the same moment.
            if let Some(kept) = self.kept.take().filter(|kept| !kept.is_closed())
                && let Ok(answer) = self.send_over(kept, body.clone()).await
            {
                return answer;
            }
            let fresh = self.connect().await.map_err(Undelivered::soon)?;
            self.send_over(fresh, body).await.map_err(Undelivered::soon)?
        });
        sent.await.unwrap_or_else(|_| {
            Err(Undelivered::soon(format!("no answer within {} ms", timeout.as_millis())))
        })
    }

    /// Sends over a connection. The outer error is the connection's, the inner one the collector's.
    async fn send_over(
        &mut self,
        mut connection: SendRequest<Full<Bytes>>,
        body: Bytes,
    ) -> Result<Result<Bytes, Undelivered>, hyper::Error> {
        connection.ready().await?;
        let path = self.endpoint.path_and_query().map_or("/", |path| path.as_str());
        let mut request = Request::post(path).body(Full::new(body)).expect("a path of a URI");
        *request.headers_mut() = self.headers.clone();
        let answer = connection.send_request(request).await?;
        let status = answer.status();
        let wait = answer.headers().get(header::RETRY_AFTER).and_then(|wait| wait.to_str().ok());
        let wait = wait.and_then(|wait| wait.trim().parse().ok()).map(Duration::from_secs);
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = match body {
            Ok(body) => body.to_bytes(),
            Err(error) => return Ok(Err(Undelivered::soon(error))),
        };
        self.kept = Some(connection);
        Ok(match status.is_success() {
            true => Ok(body),
            false => Err(Undelivered {
                reason: format!("the collector answers {status}"),
                retry: is_passing(status).then_some(wait),
            }),
        })
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, Box<dyn Error + Send + Sync>> {
        let host = self.endpoint.host().unwrap_or_default();
        let host = host.trim_matches(['[', ']']);
        let port = self.endpoint.port_u16().unwrap_or(match self.tls {
            Some(_) => 443,
            None => 80,
        });
        let stream = TcpStream::connect((host, port)).await?;
        stream.set_nodelay(true)?;
        match &self.tls {
            None => Ok(begin(stream).await?),
            Some(tls) => {
                let name = ServerName::try_from(host.to_owned())?;
                Ok(begin(tls.connect(name, stream).await?).await?)
            }
        }
    }
}

/// Begins to speak HTTP; a task of its own looks after the connection until it ends.
async fn begin<S>(stream: S) -> hyper::Result<SendRequest<Full<Bytes>>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // What ends the connection is told to the request on it.
    drop(tokio::spawn(connection));
    Ok(sender)
}

/// Whether the specification has a request sent once more after such an answer.
fn is_passing(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    )
}

/// TLS by the certificates of a file, or of the system.
fn connector(file: Option<&Path>) -> Result<TlsConnector, StartError> {
    let system = || SYSTEM_CERTIFICATES.iter().map(PathBuf::from).find(|file| file.exists());
    let found = file.map(Path::to_owned).or_else(system);
    let refused = |reason: String| StartError::Certificates { file: found.clone(), reason };
    let Some(path) = &found else {
        return Err(refused("no certificates: OTEL_EXPORTER_OTLP_CERTIFICATE names a file".into()));
    };
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| refused(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    if roots.add_parsable_certificates(certificates).0 == 0 {
        return Err(refused("no certificate in it".into()));
    }
    let provider = Arc::new(crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| refused(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}
