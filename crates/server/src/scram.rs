//! SCRAM-SHA-256 from the server's side, with and without channel binding.
//!
//! The catalog keeps verifiers in PostgreSQL's notation, from which neither the password nor a
//! login can be made; `pgwire`'s own SCRAM needs the salted password, so it is not used. For a role
//! that does not exist, or has no password, the same exchange runs with a made-up salt that is the
//! same at every try, so that a stranger learns nothing from it.
//! Source: RFC 5802, RFC 7677, RFC 5929 §4 (tls-server-end-point).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use ring::rand::SecureRandom as _;
use ring::{digest, hmac};

use crate::wire::frontend::{Body, ProtocolError};

/// Mechanism without channel binding.
pub const MECHANISM: &str = "SCRAM-SHA-256";
/// Mechanism that proves that both ends speak over the same TLS session.
pub const MECHANISM_PLUS: &str = "SCRAM-SHA-256-PLUS";

/// Iterations announced for roles that do not exist: PostgreSQL's default.
const ITERATIONS: u32 = 4096;
const KEY_BYTES: usize = digest::SHA256_OUTPUT_LEN;

/// Why an exchange failed.
#[derive(Debug, PartialEq, Eq)]
pub enum ScramError {
    /// The message breaks the protocol.
    Protocol(ProtocolError),
    /// Wrong password or no such role: the client is not told which.
    Refused,
}

impl From<ProtocolError> for ScramError {
    fn from(error: ProtocolError) -> Self {
        ScramError::Protocol(error)
    }
}

/// The data kept of a password, by which a proof is verified.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    iterations: u32,
    salt: Vec<u8>,
    stored_key: [u8; KEY_BYTES],
    server_key: [u8; KEY_BYTES],
    /// False for a made-up verifier, which refuses every proof.
    genuine: bool,
}

impl Verifier {
    /// Reads `SCRAM-SHA-256$iterations:salt$stored key:server key`.
    pub fn parse(text: &str) -> Option<Self> {
        let (head, keys) = text.strip_prefix("SCRAM-SHA-256$")?.split_once('$')?;
        let (iterations, salt) = head.split_once(':')?;
        let (stored, server) = keys.split_once(':')?;
        let key = |text| BASE64.decode(text).ok()?.try_into().ok();
        Some(Verifier {
            iterations: iterations.parse().ok()?,
            salt: BASE64.decode(salt).ok()?,
            stored_key: key(stored)?,
            server_key: key(server)?,
            genuine: true,
        })
    }

    /// Whether this is the verifier of `password`. Takes the time that a client's own computation takes (PBKDF2),
    /// as long for a made-up verifier, which no password fits.
    pub fn fits(&self, password: &str) -> bool {
        let Some(iterations) = std::num::NonZeroU32::new(self.iterations) else { return false };
        let mut salted = [0; KEY_BYTES];
        let algorithm = ring::pbkdf2::PBKDF2_HMAC_SHA256;
        ring::pbkdf2::derive(algorithm, iterations, &self.salt, password.as_bytes(), &mut salted);
        let client_key = hmac_sha256(&salted, b"Client Key");
        let stored_key = digest::digest(&digest::SHA256, &client_key);
        same(stored_key.as_ref(), &self.stored_key) && self.genuine
    }

    /// The verifier for `user` who has no password: the same at every try with the same `secret`.
    pub fn made_up(user: &str, secret: &[u8]) -> Self {
        let salt = hmac_sha256(secret, user.as_bytes());
        Verifier {
            iterations: ITERATIONS,
            salt: salt[..16].to_vec(),
            stored_key: [0; KEY_BYTES],
            server_key: [0; KEY_BYTES],
            genuine: false,
        }
    }
}

/// An exchange that waits for the client's proof.
pub struct Exchange {
    verifier: Verifier,
    client_first_bare: String,
    server_first: String,
    /// The data that the client must repeat in base64: its header, and the certificate's hash.
    binding: Vec<u8>,
    nonce: String,
}

impl Exchange {
    /// Takes SASLInitialResponse and returns the answer.
    ///
    /// `certificate_hash`: hash of the TLS session's certificate, if channel binding is offered.
    pub fn begin(
        message: Bytes,
        verifier: Verifier,
        certificate_hash: Option<&[u8]>,
    ) -> Result<(Self, String), ScramError> {
        let mut random = [0; 18];
        ring::rand::SystemRandom::new().fill(&mut random).expect("the system has random numbers");
        Self::begin_with(message, verifier, certificate_hash, &BASE64.encode(random))
    }

    fn begin_with(
        message: Bytes,
        verifier: Verifier,
        certificate_hash: Option<&[u8]>,
        own_nonce: &str,
    ) -> Result<(Self, String), ScramError> {
        let mut body = Body(message);
        let mechanism = body.string("mechanism")?;
        let length = body.i32("length of the first SCRAM message")?;
        if length < 0 || length as usize != body.0.len() {
            return Err(malformed("its length"));
        }
        let first = utf8(&body.0)?;
        let (header, bare) = split_header(first).ok_or_else(|| malformed("no header"))?;
        let binding = binding(&mechanism, header, certificate_hash)?;
        let client_nonce = attribute(bare, "r").filter(|nonce| !nonce.is_empty());
        let client_nonce = client_nonce.ok_or_else(|| malformed("no nonce"))?;
        let nonce = format!("{client_nonce}{own_nonce}");
        let salt = BASE64.encode(&verifier.salt);
        let server_first = format!("r={nonce},s={salt},i={}", verifier.iterations);
        let exchange = Exchange {
            verifier,
            client_first_bare: bare.to_owned(),
            server_first: server_first.clone(),
            binding,
            nonce,
        };
        Ok((exchange, server_first))
    }

    /// Takes SASLResponse, checks the client's proof, and returns the server's.
    pub fn finish(self, message: &[u8]) -> Result<String, ScramError> {
        let last = utf8(message)?;
        let (without_proof, proof) =
            last.rsplit_once(",p=").ok_or_else(|| malformed("no proof"))?;
        let bound = attribute(without_proof, "c").and_then(|text| BASE64.decode(text).ok());
        if bound.as_deref() != Some(&self.binding[..]) {
            return Err(ScramError::Refused);
        }
        if attribute(without_proof, "r") != Some(&self.nonce) {
            return Err(malformed("another nonce"));
        }
        let proof = BASE64.decode(proof).map_err(|_| malformed("the proof"))?;
        let proof: [u8; KEY_BYTES] = proof.try_into().map_err(|_| malformed("the proof"))?;
        let signed = format!("{},{},{without_proof}", self.client_first_bare, self.server_first);
        let mut client_key = hmac_sha256(&self.verifier.stored_key, signed.as_bytes());
        client_key.iter_mut().zip(proof).for_each(|(byte, proof)| *byte ^= proof);
        let hashed = digest::digest(&digest::SHA256, &client_key);
        if !same(hashed.as_ref(), &self.verifier.stored_key) || !self.verifier.genuine {
            return Err(ScramError::Refused);
        }
        let signature = hmac_sha256(&self.verifier.server_key, signed.as_bytes());
        Ok(format!("v={}", BASE64.encode(signature)))
    }
}

fn malformed(what: &str) -> ScramError {
    ScramError::Protocol(ProtocolError::Startup(format!("malformed SCRAM message: {what}")))
}

fn utf8(bytes: &[u8]) -> Result<&str, ScramError> {
    std::str::from_utf8(bytes).map_err(|_| ScramError::Protocol(ProtocolError::NotUtf8))
}

/// The header `flag,authzid,` and the bare message after it.
fn split_header(first: &str) -> Option<(&str, &str)> {
    let flag_end = first.find(',')?;
    let identity_end = flag_end + 1 + first[flag_end + 1..].find(',')?;
    Some(first.split_at(identity_end + 1))
}

/// The data that the client must send back as proof of the channel.
fn binding(
    mechanism: &str,
    header: &str,
    certificate_hash: Option<&[u8]>,
) -> Result<Vec<u8>, ScramError> {
    let flag = header.split(',').next().unwrap_or_default();
    match (mechanism, flag, certificate_hash) {
        (MECHANISM, "n", _) | (MECHANISM, "y", None) => Ok(header.into()),
        // The client believes that binding was not offered, although it was: someone sits between
        // the two.
        (MECHANISM, "y", Some(_)) => Err(ScramError::Refused),
        (MECHANISM_PLUS, "p=tls-server-end-point", Some(hash)) => {
            Ok([header.as_bytes(), hash].concat())
        }
        _ => Err(malformed("mechanism and channel binding do not fit")),
    }
}

/// The value of `name=value` in a list separated by commas.
fn attribute<'a>(message: &'a str, name: &str) -> Option<&'a str> {
    message.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
}

fn hmac_sha256(key: &[u8], message: &[u8]) -> [u8; KEY_BYTES] {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, message).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// Compares in constant time, which does not tell where the difference is.
fn same(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len() && left.iter().zip(right).fold(0, |sum, (l, r)| sum | (l ^ r)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677 §3: user `user`, password `pencil`.
    const SALT: &str = "W22ZaJ0SNY7soEsUEjb6gQ==";
    const CLIENT_NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
    const SERVER_NONCE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    const PROOF: &str = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    const SIGNATURE: &str = "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

    fn pencil() -> Verifier {
        let mut salted = [0; KEY_BYTES];
        ring::pbkdf2::derive(
            ring::pbkdf2::PBKDF2_HMAC_SHA256,
            4096.try_into().unwrap(),
            &BASE64.decode(SALT).unwrap(),
            b"pencil",
            &mut salted,
        );
        let client_key = hmac_sha256(&salted, b"Client Key");
        let stored = BASE64.encode(digest::digest(&digest::SHA256, &client_key));
        let server = BASE64.encode(hmac_sha256(&salted, b"Server Key"));
        Verifier::parse(&format!("SCRAM-SHA-256$4096:{SALT}${stored}:{server}")).unwrap()
    }

    fn initial(mechanism: &str, first: &str) -> Bytes {
        let mut message = [mechanism.as_bytes(), b"\0"].concat();
        message.extend((first.len() as u32).to_be_bytes());
        message.extend(first.as_bytes());
        message.into()
    }

    fn begun(verifier: Verifier) -> Exchange {
        let first = initial(MECHANISM, &format!("n,,n=user,r={CLIENT_NONCE}"));
        let (exchange, answer) = Exchange::begin_with(first, verifier, None, SERVER_NONCE).unwrap();
        assert!(answer.starts_with(&format!("r={CLIENT_NONCE}{SERVER_NONCE},s=")));
        exchange
    }

    #[test]
    fn the_example_of_the_rfc_succeeds_and_every_change_of_it_fails() {
        let last = format!("c=biws,r={CLIENT_NONCE}{SERVER_NONCE},p={PROOF}");
        let answer = begun(pencil()).finish(last.as_bytes());
        assert_eq!(answer.as_deref(), Ok(&*format!("v={SIGNATURE}")));
        for wrong in [last.replace("p=d", "p=e"), last.replace("c=biws", "c=eSws")] {
            assert_eq!(begun(pencil()).finish(wrong.as_bytes()), Err(ScramError::Refused));
        }
        let nobody = Verifier::made_up("user", b"secret");
        assert_eq!(begun(nobody).finish(last.as_bytes()), Err(ScramError::Refused));
        for malformed in ["", "c=biws", &last.replace("r=r", "r=q"), "c=biws,p=!"] {
            let result = begun(pencil()).finish(malformed.as_bytes());
            assert!(result.is_err(), "{malformed}");
        }
    }

    #[test]
    fn a_password_fits_its_own_verifier_alone() {
        assert!(pencil().fits("pencil"));
        assert!(!pencil().fits("pencils") && !pencil().fits(""));
        assert!(!Verifier::made_up("user", b"secret").fits("pencil"));
    }

    #[test]
    fn a_downgrade_of_the_channel_is_noticed() {
        let hash = Some(&b"certificate"[..]);
        let begin = |mechanism, first: &str| {
            Exchange::begin_with(initial(mechanism, first), pencil(), hash, "x").map(|_| ())
        };
        assert_eq!(begin(MECHANISM, "y,,n=,r=a"), Err(ScramError::Refused));
        assert!(begin(MECHANISM, "n,,n=,r=a").is_ok());
        assert!(begin(MECHANISM_PLUS, "p=tls-server-end-point,,n=,r=a").is_ok());
        assert!(begin(MECHANISM_PLUS, "n,,n=,r=a").is_err());
        assert!(begin("PLAIN", "n,,n=,r=a").is_err());
    }

    #[test]
    fn made_up_salts_stay_and_differ_by_user() {
        let salt = |user| Verifier::made_up(user, b"secret").salt;
        assert_eq!(salt("a"), salt("a"));
        assert_ne!(salt("a"), salt("b"));
    }
}
