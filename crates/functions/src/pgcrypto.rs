//! `digest` and `hmac`, as the extension pgcrypto has them.

use super::{Arguments, Gives, Kind, Row, error};
use datafusion::common::ScalarValue;
use halcyon_sql::error::{Result, SqlError, SqlState};
use hmac::{Hmac, KeyInit, Mac};
use md5::{Digest, Md5};
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512};

const DIGEST: &str = "A hash: `md5`, `sha1`, `sha224`, `sha256`, `sha384` or `sha512`.";
const HMAC: &str = "A hash that only who has the key can make.";

pub(super) const ROWS: &[Row] = &[
    Row::new("digest", DIGEST, &[Kind::Text, Kind::Text], Gives::Bytes, digest),
    Row::new("digest", DIGEST, &[Kind::Bytes, Kind::Text], Gives::Bytes, digest),
    Row::new("hmac", HMAC, &[Kind::Text, Kind::Text, Kind::Text], Gives::Bytes, hmac),
    Row::new("hmac", HMAC, &[Kind::Bytes, Kind::Bytes, Kind::Text], Gives::Bytes, hmac),
];

/// The bytes of a text, or those that an argument is.
fn bytes<'a>(args: &'a Arguments<'_>, at: usize) -> &'a [u8] {
    match &args.values[at] {
        ScalarValue::BinaryView(Some(bytes)) => bytes,
        _ => args.text(at).as_bytes(),
    }
}

fn digest(args: &Arguments<'_>) -> Result<ScalarValue> {
    let data = bytes(args, 0);
    let hash = match args.text(1).to_ascii_lowercase().as_str() {
        "md5" => Md5::digest(data).to_vec(),
        "sha1" => Sha1::digest(data).to_vec(),
        "sha224" => Sha224::digest(data).to_vec(),
        "sha256" => Sha256::digest(data).to_vec(),
        "sha384" => Sha384::digest(data).to_vec(),
        "sha512" => Sha512::digest(data).to_vec(),
        _ => return Err(unknown(args.text(1))),
    };
    Ok(ScalarValue::BinaryView(Some(hash)))
}

fn hmac(args: &Arguments<'_>) -> Result<ScalarValue> {
    let (data, key) = (bytes(args, 0), bytes(args, 1));
    macro_rules! keyed {
        ($hash:ty) => {{
            let mut mac = Hmac::<$hash>::new_from_slice(key).expect("keys of any length do");
            mac.update(data);
            mac.finalize().into_bytes().to_vec()
        }};
    }
    let hash = match args.text(2).to_ascii_lowercase().as_str() {
        "md5" => keyed!(Md5),
        "sha1" => keyed!(Sha1),
        "sha224" => keyed!(Sha224),
        "sha256" => keyed!(Sha256),
        "sha384" => keyed!(Sha384),
        "sha512" => keyed!(Sha512),
        _ => return Err(unknown(args.text(2))),
    };
    Ok(ScalarValue::BinaryView(Some(hash)))
}

fn unknown(name: &str) -> SqlError {
    let message = format!("Cannot use \"{name}\": No such hash algorithm");
    error(SqlState::INVALID_PARAMETER_VALUE, message)
}
