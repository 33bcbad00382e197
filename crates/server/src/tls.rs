//! TLS from PEM files, through rustls.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pgwire::tokio::tokio_rustls::TlsAcceptor;
use pgwire::tokio::tokio_rustls::rustls::pki_types::pem::PemObject as _;
use pgwire::tokio::tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use pgwire::tokio::tokio_rustls::rustls::{self, ServerConfig, crypto};
use ring::digest;

/// The files of certificate and key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificate chain, the server's own first.
    pub certificate: PathBuf,
    /// The certificate's private key.
    pub key: PathBuf,
}

/// Why TLS cannot be offered.
#[derive(Debug)]
pub enum TlsError {
    /// A file cannot be read, or has no PEM block of the wanted kind.
    File {
        /// Path of the file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// Certificate and key do not match.
    Rejected(rustls::Error),
}

impl std::fmt::Display for TlsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TlsError::File { path, reason } => write!(f, "{}: {reason}", path.display()),
            TlsError::Rejected(error) => write!(f, "certificate and key are refused: {error}"),
        }
    }
}

impl std::error::Error for TlsError {}

/// The server's side of TLS for all connections.
#[derive(Clone)]
pub struct Tls {
    /// Does the handshake.
    pub acceptor: TlsAcceptor,
    /// The certificate's hash for channel binding; `None` if its signature's hash is not supported.
    pub certificate_hash: Option<Arc<[u8]>>,
}

impl Tls {
    /// Reads the files. `protocol`: what clients ask for that begin with TLS at once (ALPN); PostgreSQL's
    /// with `sslnegotiation=direct` ask for `postgresql`.
    pub fn load(files: &TlsFiles, protocol: &str) -> Result<Self, TlsError> {
        let chain = CertificateDer::pem_file_iter(&files.certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| file(&files.certificate, error))?;
        let Some(own) = chain.first() else {
            return Err(file(&files.certificate, "it holds no certificate"));
        };
        let certificate_hash = certificate_hash(own).map(Arc::from);
        let key =
            PrivateKeyDer::from_pem_file(&files.key).map_err(|error| file(&files.key, error))?;
        let provider = Arc::new(crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .map_err(TlsError::Rejected)?;
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        Ok(Tls { acceptor: TlsAcceptor::from(Arc::new(config)), certificate_hash })
    }
}

fn file(path: &Path, reason: impl ToString) -> TlsError {
    TlsError::File { path: path.to_owned(), reason: reason.to_string() }
}

/// Hash of a certificate for `tls-server-end-point` (RFC 5929 §4.1): by the hash function of its
/// signature, SHA-256 in place of weaker ones.
fn certificate_hash(certificate: &[u8]) -> Option<Vec<u8>> {
    let outer = der(certificate, 0x30)?.0;
    let (_, after_body) = der(outer, 0x30)?;
    let (algorithm, _) = der(after_body, 0x30)?;
    let (oid, _) = der(algorithm, 0x06)?;
    const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
    const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03];
    let (&last, family) = oid.split_last()?;
    let function = match (family, last) {
        (RSA, 4 | 5 | 11) | (ECDSA, 2) => &digest::SHA256,
        (RSA, 12) | (ECDSA, 3) => &digest::SHA384,
        (RSA, 13) | (ECDSA, 4) => &digest::SHA512,
        _ => return None,
    };
    Some(digest::digest(function, certificate).as_ref().to_vec())
}

/// The contents of the DER element of type `tag` at the start of `bytes`, and the bytes behind it.
fn der(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = bytes.split_first()?;
    let (&short, rest) = rest.split_first()?;
    let (length, rest) = match short {
        0..0x80 => (usize::from(short), rest),
        _ => {
            let (length, rest) = rest.split_at_checked(usize::from(short & 0x7f))?;
            let length = length.iter().try_fold(0usize, |sum, byte| {
                sum.checked_mul(256)?.checked_add(usize::from(*byte))
            });
            (length?, rest)
        }
    };
    let (contents, after) = rest.split_at_checked(length)?;
    (found == tag).then_some((contents, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn der_elements_are_bounded_by_what_is_there() {
        assert_eq!(der(&[0x30, 2, 7, 8, 9], 0x30), Some((&[7, 8][..], &[9][..])));
        assert_eq!(der(&[0x30, 0x81, 1, 7], 0x30), Some((&[7][..], &[][..])));
        for short in [&[][..], &[0x30], &[0x30, 3, 1], &[0x30, 0x89, 255], &[0x06, 0]] {
            assert_eq!(der(short, 0x30), None);
        }
        assert_eq!(certificate_hash(b"no certificate"), None);
    }
}
