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

/// The time in which a certificate holds, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The first second.
    pub begins: i64,
    /// The last second.
    pub ends: i64,
}

impl TlsFiles {
    /// When the server's own certificate, the first of the chain, holds; `None` if its dates cannot be read.
    pub fn validity(&self) -> Result<Option<Validity>, TlsError> {
        Ok(validity(own(&self.chain()?, &self.certificate)?))
    }

    /// The certificates of the chain.
    fn chain(&self) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        CertificateDer::pem_file_iter(&self.certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| file(&self.certificate, error))
    }
}

/// The first certificate of a chain that was read from a file.
fn own<'a, 'c>(
    chain: &'a [CertificateDer<'c>],
    path: &Path,
) -> Result<&'a CertificateDer<'c>, TlsError> {
    chain.first().ok_or_else(|| file(path, "it holds no certificate"))
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
        let chain = files.chain()?;
        let certificate_hash = certificate_hash(own(&chain, &files.certificate)?).map(Arc::from);
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

/// The dates of a certificate (RFC 5280 §4.1: version, serial number, algorithm, issuer, validity).
fn validity(certificate: &[u8]) -> Option<Validity> {
    let body = der(der(certificate, 0x30)?.0, 0x30)?.0;
    let body = der(body, 0xa0).map_or(body, |(_, behind)| behind);
    let behind_serial = der(body, 0x02)?.1;
    let behind_algorithm = der(behind_serial, 0x30)?.1;
    let behind_issuer = der(behind_algorithm, 0x30)?.1;
    let dates = der(behind_issuer, 0x30)?.0;
    let (begins, rest) = moment(dates)?;
    let (ends, _) = moment(rest)?;
    Some(Validity { begins, ends })
}

/// The moment at the start of `bytes`, in seconds since 1970, and the bytes behind it: `YYMMDDHHMMSSZ`, where years
/// from 50 are of the last century, or `YYYYMMDDHHMMSSZ`.
fn moment(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let (text, rest, year_digits) = match der(bytes, 0x17) {
        Some((text, rest)) => (text, rest, 2),
        None => der(bytes, 0x18).map(|(text, rest)| (text, rest, 4))?,
    };
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    if text.len() != year_digits + 10 || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number = |from: usize, digits: usize| text[from..from + digits].parse::<i64>().ok();
    let year = match (year_digits, number(0, year_digits)?) {
        (2, year @ 50..) => 1900 + year,
        (2, year) => 2000 + year,
        (_, year) => year,
    };
    let part = |at: usize| number(year_digits + 2 * at, 2);
    let days = days_since_1970(year, part(0)?, part(1)?);
    Some((((days * 24 + part(2)?) * 60 + part(3)?) * 60 + part(4)?, rest))
}

/// Days from 1970-01-01 to a day of the Gregorian calendar.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so that the leap day is the last one; the months from then on have 153 days in five.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    365 * year + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
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
        assert_eq!(validity(b"no certificate"), None);
    }

    #[test]
    fn moments_of_certificates_are_seconds_since_1970() {
        let seconds = |tag: u8, text: &str| {
            let length = u8::try_from(text.len()).expect("short");
            let bytes = [&[tag, length], text.as_bytes()].concat();
            moment(&bytes).map(|(seconds, _)| seconds)
        };
        assert_eq!(seconds(0x17, "700101000000Z"), Some(0));
        assert_eq!(seconds(0x17, "491231235959Z"), Some(2_524_607_999));
        assert_eq!(seconds(0x17, "500101000000Z"), Some(-631_152_000));
        assert_eq!(seconds(0x18, "20240229120000Z"), Some(1_709_208_000));
        assert_eq!(seconds(0x18, "20500301000000Z"), Some(2_529_705_600));
        for odd in ["700101000000", "7001010000Z", "70010100000xZ", ""] {
            assert_eq!(seconds(0x17, odd), None, "{odd}");
        }
    }
}
