//! Where clients come in: the TCP address, and beside it a Unix socket in a folder, where PostgreSQL's clients look
//! for `.s.PGSQL.PORT`.
//!
//! Who may use the Unix socket is settled by the file's mode: it is made in a folder that nobody else may enter, gets
//! its mode there, and takes its place by a rename. A file that a crashed server has left is replaced that way; one at
//! which somebody answers is not.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream as StdTcpStream};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::socket::Socket;

/// A socket at which clients come in.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A client's socket that no event queue knows yet.
pub(crate) enum Arrival {
    Tcp(StdTcpStream, SocketAddr),
    Unix(StdUnixStream),
}

/// Where a client comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Peer {
    /// An address.
    At(IpAddr),
    /// The Unix socket, which only this machine has.
    Local,
}

impl Peer {
    /// The address by which clients are counted and trusted: this machine's own for who uses the Unix socket.
    pub fn address(self) -> IpAddr {
        match self {
            Peer::At(address) => address.to_canonical(),
            Peer::Local => IpAddr::V4(Ipv4Addr::LOCALHOST),
        }
    }

    /// The address that a session shows (`client_addr`); none for who uses the Unix socket, as in PostgreSQL.
    pub fn shown(self) -> Option<String> {
        match self {
            Peer::At(_) => Some(self.address().to_string()),
            Peer::Local => None,
        }
    }
}

impl Listener {
    /// Waits for a client.
    pub async fn accept(&self) -> io::Result<Arrival> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok(Arrival::Tcp(stream.into_std()?, peer))
            }
            Listener::Unix(listener) => Ok(Arrival::Unix(listener.accept().await?.0.into_std()?)),
        }
    }
}

impl Arrival {
    /// Puts the socket into the event queue of the thread that runs this.
    pub fn settle(self) -> io::Result<(Socket, Peer)> {
        Ok(match self {
            Arrival::Tcp(stream, peer) => {
                let stream = TcpStream::from_std(stream)?;
                let _ = stream.set_nodelay(true);
                (Socket::tcp(stream), Peer::At(peer.ip()))
            }
            Arrival::Unix(stream) => (Socket::unix(UnixStream::from_std(stream)?), Peer::Local),
        })
    }
}

/// The file of a Unix socket, which goes with this value.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl SocketFile {
    /// Makes `folder/.s.PGSQL.port` with a mode. To be called where an event queue is.
    ///
    /// Errors: `AddrInUse` if a server answers there; the system's.
    pub fn open(folder: &Path, port: u16, mode: u32) -> io::Result<(Self, UnixListener)> {
        let path = folder.join(format!(".s.PGSQL.{port}"));
        if StdUnixStream::connect(&path).is_ok() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let private = folder.join(format!(".s.halcyon.{port}.{}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&private)?;
        let made = Self::make(&private.join("s"), &path, mode);
        let _ = fs::remove_dir_all(&private);
        made
    }

    fn make(within: &Path, path: &Path, mode: u32) -> io::Result<(Self, UnixListener)> {
        let listener = UnixListener::bind(within)?;
        fs::set_permissions(within, fs::Permissions::from_mode(mode))?;
        fs::rename(within, path)?;
        let inode = fs::symlink_metadata(path)?.ino();
        Ok((SocketFile { path: path.to_owned(), inode }, listener))
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Another server may have taken the place.
        if fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_file_replaces_a_dead_one_alone_and_goes_with_its_server() {
        let folder = std::env::temp_dir().join(format!("halcyon-socket-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let open = |mode| SocketFile::open(&folder, 5433, mode);
        let (first, listener) = open(0o770).expect("a socket");
        let path = first.path().to_owned();
        assert_eq!(path, folder.join(".s.PGSQL.5433"));
        let mode = |path: &Path| fs::metadata(path).expect("a file").permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o770);
        let refused = open(0o700).expect_err("somebody answers");
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        // As a crash leaves it.
        let (second, _listener) = open(0o700).expect("nobody answers");
        assert_eq!(mode(&path), 0o700);
        drop(first);
        assert!(path.exists(), "it belongs to the second");
        drop(second);
        fs::remove_dir(&folder).expect("nothing is left in it");
    }
}
