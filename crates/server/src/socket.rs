//! The stream to a client, plain or under TLS, and the detection of its end while no one reads.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pgwire::tokio::tokio_rustls::server::TlsStream;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
use tokio::net::{TcpStream, UnixStream, tcp, unix};

/// A stream that a watcher shares. The reading side is the connection's own: tokio knows after a
/// read that did not fill its buffer that nothing is left, and asks the kernel no second time.
pub struct Socket {
    read: Reading,
    write: Arc<Writing>,
}

enum Reading {
    Tcp(tcp::OwnedReadHalf),
    Unix(unix::OwnedReadHalf),
}

enum Writing {
    Tcp(tcp::OwnedWriteHalf),
    Unix(unix::OwnedWriteHalf),
}

impl Writing {
    async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        match self {
            Writing::Tcp(half) => half.ready(interest).await,
            Writing::Unix(half) => half.ready(interest).await,
        }
    }

    fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Writing::Tcp(half) => half.as_ref().poll_write_ready(context),
            Writing::Unix(half) => half.as_ref().poll_write_ready(context),
        }
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Writing::Tcp(half) => half.try_write(bytes),
            Writing::Unix(half) => half.try_write(bytes),
        }
    }
}

/// A handle that notices the client's end, even while the connection runs a statement and does not
/// read.
#[derive(Clone)]
pub struct Watch(Arc<Writing>);

impl Socket {
    /// Takes over an accepted stream.
    pub fn tcp(stream: TcpStream) -> Self {
        let (read, write) = stream.into_split();
        Socket { read: Reading::Tcp(read), write: Arc::new(Writing::Tcp(write)) }
    }

    /// Takes over an accepted stream.
    pub fn unix(stream: UnixStream) -> Self {
        let (read, write) = stream.into_split();
        Socket { read: Reading::Unix(read), write: Arc::new(Writing::Unix(write)) }
    }

    /// Makes a handle that notices the client's end.
    pub fn watch(&self) -> Watch {
        Watch(self.write.clone())
    }

    /// The first byte that the client sends, left in the stream; `None` if the client leaves
    /// instead. Through a Unix socket, where nobody begins with TLS, it is not looked at: 0.
    pub async fn peek(&self) -> io::Result<Option<u8>> {
        let Reading::Tcp(half) = &self.read else { return Ok(Some(0)) };
        let mut byte = [0];
        Ok((half.as_ref().peek(&mut byte).await? > 0).then_some(byte[0]))
    }
}

impl Watch {
    /// Waits until the client has closed its end, or the connection broke.
    ///
    /// Data sent before and not read yet does not hide the end: the kernel reports the end as an
    /// event of its own, which tokio gives to tasks that wait for priority data.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub async fn gone(&self) {
        loop {
            match self.0.ready(Interest::PRIORITY | Interest::ERROR).await {
                Ok(ready) if !ready.is_read_closed() && !ready.is_error() => {
                    // Urgent data, which no client sends: check again later.
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
                _ => return,
            }
        }
    }

    /// Waits until the connection is closed in both directions, or broke. A client that has closed its sending side alone
    /// looks like one that is gone until something is sent to it.
    pub async fn broken(&self) {
        loop {
            match self.0.ready(Interest::WRITABLE | Interest::ERROR).await {
                Ok(ready) if !ready.is_write_closed() && !ready.is_error() => {
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                }
                _ => return,
            }
        }
    }

    /// Waits until the client has closed its end; on this system that is noticed only once its data
    /// are read.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub async fn gone(&self) {
        let Writing::Tcp(half) = &*self.0 else { return std::future::pending().await };
        let mut byte = [0];
        while !matches!(half.as_ref().peek(&mut byte).await, Ok(0) | Err(_)) {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.read {
            Reading::Tcp(half) => Pin::new(half).poll_read(context, buffer),
            Reading::Unix(half) => Pin::new(half).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.write.poll_write_ready(context))?;
            match self.write.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The kernel has all of it.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The end of the stream is sent when the connection and its watcher have gone.
        Poll::Ready(Ok(()))
    }
}

/// A stream to a client after the negotiation of TLS.
pub enum Stream<S> {
    /// Without encryption.
    Plain(S),
    /// Under TLS.
    Tls(Box<TlsStream<S>>),
    /// The TLS handshake failed: nothing can be sent or received any more.
    Closed,
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Stream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Closed => Poll::Ready(Ok(())),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Closed => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
            Stream::Closed => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Closed => Poll::Ready(Ok(())),
        }
    }
}
