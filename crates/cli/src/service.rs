//! Messages to the service manager that has started the server: ready, ending, and what it does meanwhile.
//!
//! A manager that wants them names a datagram socket in `NOTIFY_SOCKET`; systemd does for `Type=notify`.
//! Source: the manual page sd_notify(3). Nothing depends on the answer: a manager that does not listen is none.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The service manager, if there is one.
pub struct Manager(Option<(UnixDatagram, SocketAddr)>);

impl Manager {
    /// The manager that the environment names.
    pub fn of_environment() -> Manager {
        Manager::at(std::env::var_os("NOTIFY_SOCKET").as_deref())
    }

    /// The manager at a socket; a leading `@` stands for an abstract address.
    fn at(socket: Option<&OsStr>) -> Manager {
        let address = |socket: &OsStr| match socket.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
            _ => SocketAddr::from_pathname(socket),
        };
        let address = socket.and_then(|socket| address(socket).ok());
        Manager(address.and_then(|address| Some((UnixDatagram::unbound().ok()?, address))))
    }

    /// Whether there is one.
    pub fn is_there(&self) -> bool {
        self.0.is_some()
    }

    /// The server answers clients; `place`: where.
    pub fn ready(&self, place: &str) {
        self.tell(&format!("READY=1\nSTATUS=listening at {place}"));
    }

    /// The server has been told to end.
    pub fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=ending");
    }

    /// The server does something before it is ready.
    pub fn status(&self, doing: &str) {
        self.tell(&format!("STATUS={doing}"));
    }

    fn tell(&self, message: &str) {
        if let Some((socket, address)) = &self.0
            && let Err(error) = socket.send_to_addr(message.as_bytes(), address)
        {
            tracing::warn!(%error, "the service manager cannot be told");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 200];
        let length = socket.recv(&mut bytes).expect("a message");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    #[test]
    fn a_manager_is_told_at_a_path_and_at_an_abstract_address() {
        let name = format!("halcyon-notify-{}", std::process::id());
        let path = std::env::temp_dir().join(&name);
        let _ = std::fs::remove_file(&path);
        let at_path = UnixDatagram::bind(&path).expect("a socket");
        let address = SocketAddr::from_abstract_name(&name).expect("short");
        let at_name = UnixDatagram::bind_addr(&address).expect("a socket");
        let abstract_name = format!("@{name}");
        for (socket, named) in [(at_path, path.as_os_str()), (at_name, abstract_name.as_ref())] {
            let manager = Manager::at(Some(named));
            manager.status("opening");
            manager.ready("127.0.0.1:1");
            manager.stopping();
            assert_eq!(told(&socket), "STATUS=opening");
            assert_eq!(told(&socket), "READY=1\nSTATUS=listening at 127.0.0.1:1");
            assert_eq!(told(&socket), "STOPPING=1\nSTATUS=ending");
        }
        std::fs::remove_file(&path).expect("the socket's file");
        Manager::at(Some(path.as_os_str())).stopping();
        Manager::at(None).stopping();
        assert!(!Manager::at(None).is_there());
    }
}
