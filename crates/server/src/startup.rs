//! A connection from its first byte to its first ReadyForQuery: TLS, authentication, settings.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use halcyon::{Session, SessionOptions, SqlError};
use pgwire::messages::startup::{
    Authentication, BackendKeyData, NegotiateProtocolVersion, SecretKey,
};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use crate::antechamber::Place;
use crate::farewell::{fatal, violation};
use crate::listener::Peer;
use crate::logins::{refuse_open_network, trusts, wrong_password};
use crate::scram::{self, Exchange, ScramError, Verifier};
use crate::shared::Shared;
use crate::socket::Stream;
use crate::wire::backend::Output;
use crate::wire::frontend::{Body, Message, ProtocolError};
use crate::wire::input::{Input, InputError};

const CANCEL: i32 = 80_877_102;
const SSL: i32 = 80_877_103;
const GSS_ENCRYPTION: i32 = 80_877_104;
/// The newest minor version of protocol 3 that is supported: it has longer cancel keys.
const MINOR_MAX: u16 = 2;

/// A client that has logged in and has been told so.
pub(crate) struct Client<S> {
    pub stream: Stream<S>,
    pub input: Input,
    pub session: Session,
    pub place: SessionPlace,
}

/// A client's place among the connections; dropping it frees the place and its cancel key.
pub(crate) struct SessionPlace {
    shared: Arc<Shared>,
    session: u32,
    _place: Place,
}

impl Drop for SessionPlace {
    fn drop(&mut self) {
        self.shared.keys.remove(self.session);
    }
}

/// Why a connection does not become a client.
pub(crate) enum Refusal {
    /// Nothing more is sent: a cancel request, or the client is gone.
    Silent,
    /// The client is told this error.
    Error(SqlError),
}

impl From<io::Error> for Refusal {
    fn from(_: io::Error) -> Self {
        Refusal::Silent
    }
}

impl From<SqlError> for Refusal {
    fn from(error: SqlError) -> Self {
        Refusal::Error(error)
    }
}

impl From<ProtocolError> for Refusal {
    fn from(error: ProtocolError) -> Self {
        Refusal::Error(violation(&error))
    }
}

impl From<InputError> for Refusal {
    fn from(error: InputError) -> Self {
        match error {
            InputError::Io(_) => Refusal::Silent,
            InputError::Protocol(error) => error.into(),
        }
    }
}

/// The contents of the startup packet.
#[derive(Debug, Default, PartialEq, Eq)]
struct Startup {
    minor: u16,
    user: String,
    settings: Vec<(String, String)>,
    /// Protocol options that are not supported (`_pq_.…`).
    unknown: Vec<String>,
}

/// Takes a client from its first byte to its first ReadyForQuery.
///
/// `peer`: where the client comes from. `None`: there is no client to serve; a refused one has been told.
pub(crate) async fn login<S>(shared: &Arc<Shared>, stream: S, peer: Peer) -> Option<Client<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut stream = Stream::Plain(stream);
    let mut input = Input::default();
    match greet(shared, &mut stream, &mut input, peer).await {
        Ok((session, place)) => Some(Client { stream, input, session, place }),
        Err(Refusal::Silent) => None,
        Err(Refusal::Error(error)) => {
            fatal(&mut stream, &mut Output::default(), &error).await;
            None
        }
    }
}

/// Logs a client in that begins with TLS without PostgreSQL's own request
/// (`sslnegotiation=direct`).
pub(crate) async fn login_tls<S>(shared: &Arc<Shared>, stream: S, peer: Peer) -> Option<Client<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let tls = shared.tls.as_ref()?;
    let mut stream = Stream::Tls(Box::new(tls.acceptor.accept(stream).await.ok()?));
    let mut input = Input::default();
    match greet(shared, &mut stream, &mut input, peer).await {
        Ok((session, place)) => Some(Client { stream, input, session, place }),
        Err(Refusal::Silent) => None,
        Err(Refusal::Error(error)) => {
            fatal(&mut stream, &mut Output::default(), &error).await;
            None
        }
    }
}

async fn greet<S>(
    shared: &Arc<Shared>,
    stream: &mut Stream<S>,
    input: &mut Input,
    peer: Peer,
) -> Result<(Session, SessionPlace), Refusal>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let startup = negotiate(shared, stream, input).await?;
    let mut output = Output::default();
    negotiate_version(&startup, &mut output);
    let address = peer.address();
    authenticate(shared, stream, input, &mut output, &startup.user, address).await?;
    let taken = shared.places.take(shared.db.is_superuser(&startup.user))?;
    let options = SessionOptions { role: Some(startup.user.clone()), client: peer.shown() };
    let mut session = shared.db.session_with(options)?;
    for (name, value) in &startup.settings {
        session.set(name, value)?;
    }
    session.require_connection()?;
    session.take_changes();
    session.take_notices();
    output.put(&Authentication::Ok);
    for (name, value) in session.reported_settings() {
        output.parameter_status(&name, &value);
    }
    let secret = shared.keys.add(session.id(), startup.minor >= 2, session.canceller());
    let place = SessionPlace { shared: shared.clone(), session: session.id(), _place: taken };
    let key = match <[u8; 4]>::try_from(&secret[..]) {
        Ok(short) => SecretKey::I32(i32::from_be_bytes(short)),
        Err(_) => SecretKey::Bytes(secret.into()),
    };
    output.put(&BackendKeyData::new(session.id() as i32, key));
    output.ready(session.state());
    stream.write_all(&output.buffer).await?;
    stream.flush().await?;
    Ok((session, place))
}

/// Handles the packets before the startup packet: offers of encryption, and cancel requests.
async fn negotiate<S>(
    shared: &Arc<Shared>,
    stream: &mut Stream<S>,
    input: &mut Input,
) -> Result<Startup, Refusal>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        let mut packet = Body(startup_packet(stream, input).await?);
        match packet.i32("protocol version")? {
            SSL => {
                let Some(tls) = shared.tls.as_ref().filter(|_| matches!(stream, Stream::Plain(_)))
                else {
                    stream.write_all(b"N").await?;
                    continue;
                };
                stream.write_all(b"S").await?;
                if !input.is_empty() {
                    let what = "unencrypted data after a request for TLS";
                    return Err(ProtocolError::Unexpected(what).into());
                }
                begin_tls(stream, tls).await?;
            }
            GSS_ENCRYPTION => stream.write_all(b"N").await?,
            CANCEL => {
                let session = packet.i32("session of a cancel request")?;
                shared.keys.cancel(session as u32, &packet.0);
                return Err(Refusal::Silent);
            }
            version => return Ok(parse_startup(version, packet)?),
        }
    }
}

async fn begin_tls<S>(stream: &mut Stream<S>, tls: &crate::tls::Tls) -> Result<(), Refusal>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let Stream::Plain(plain) = std::mem::replace(stream, Stream::Closed) else {
        unreachable!("TLS begins once");
    };
    *stream = Stream::Tls(Box::new(tls.acceptor.accept(plain).await?));
    Ok(())
}

async fn startup_packet<S>(stream: &mut Stream<S>, input: &mut Input) -> Result<Bytes, Refusal>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        if let Some(packet) = input.take_startup()? {
            return Ok(packet);
        }
        if !input.fill(stream).await? {
            return Err(Refusal::Silent);
        }
    }
}

fn parse_startup(version: i32, mut packet: Body) -> Result<Startup, ProtocolError> {
    let (major, minor) = ((version >> 16) as u16, version as u16);
    if major != 3 {
        let what = format!("unsupported frontend protocol {major}.{minor}: server supports 3");
        return Err(ProtocolError::Startup(what));
    }
    let mut startup = Startup { minor, ..Startup::default() };
    loop {
        let name = packet.string("name of a startup option")?;
        if name.is_empty() {
            break;
        }
        let value = packet.string("value of a startup option")?;
        match name.as_str() {
            "user" => startup.user = value,
            // A server has one database, which every name means.
            "database" => {}
            "options" => startup.settings.extend(parse_options(&value)?),
            "replication" if matches!(&*value, "false" | "off" | "no" | "0") => {}
            name if name.starts_with("_pq_.") => startup.unknown.push(name.to_owned()),
            _ => startup.settings.push((name, value)),
        }
    }
    if packet.0.has_remaining() {
        return Err(ProtocolError::TrailingBytes(packet.0.len()));
    }
    if startup.user.is_empty() {
        return Err(ProtocolError::Startup("no user name specified".into()));
    }
    Ok(startup)
}

/// Settings of `options`: `-c name=value` and `--name=value`, where `\` quotes a blank.
fn parse_options(text: &str) -> Result<Vec<(String, String)>, ProtocolError> {
    let mut words = vec![String::new()];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let word = words.last_mut().expect("there is always one");
        match c {
            '\\' => word.extend(chars.next()),
            c if c.is_whitespace() => words.push(String::new()),
            c => word.push(c),
        }
    }
    let mut words = words.into_iter().filter(|word| !word.is_empty());
    let mut settings = Vec::new();
    while let Some(word) = words.next() {
        let setting = match word.strip_prefix("--").or_else(|| word.strip_prefix("-c")) {
            Some("") => words.next(),
            Some(setting) => Some(setting.to_owned()),
            None => None,
        };
        let pair = setting.as_deref().and_then(|setting| setting.split_once('='));
        let (name, value) =
            pair.ok_or_else(|| ProtocolError::Startup(format!("invalid option: {word}")))?;
        settings.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(settings)
}

/// Tells a client that asks for a newer protocol which one is spoken here.
fn negotiate_version(startup: &Startup, output: &mut Output) {
    if startup.minor > MINOR_MAX || startup.minor == 1 || !startup.unknown.is_empty() {
        let minor = if startup.minor >= MINOR_MAX { MINOR_MAX } else { 0 };
        let version = 3 << 16 | i32::from(minor);
        output.put(&NegotiateProtocolVersion::new(version, startup.unknown.clone()));
    }
}

/// Verifies that the client may act as `user`.
///
/// A client of this machine is trusted with a role without a password, unless the server was given
/// a password. Errors: 28P01 for a wrong password, 28000 over an open network.
async fn authenticate<S>(
    shared: &Arc<Shared>,
    stream: &mut Stream<S>,
    input: &mut Input,
    output: &mut Output,
    user: &str,
    peer: IpAddr,
) -> Result<(), Refusal>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let secure = matches!(stream, Stream::Tls(_));
    refuse_open_network(peer, secure)?;
    if trusts(shared, user, peer) {
        return Ok(());
    }
    let kept = shared.db.password_verifier(user);
    let genuine = kept.as_deref().and_then(Verifier::parse);
    let verifier = genuine.unwrap_or_else(|| Verifier::made_up(user, &shared.scram_secret));
    let tls = shared.tls.as_ref().filter(|_| secure);
    let binding = tls.and_then(|tls| tls.certificate_hash.clone());
    let delay = shared.failures.delay(peer, user);
    match exchange(stream, input, output, verifier, binding.as_deref(), delay).await {
        Ok(()) => {
            shared.failures.right(peer, user);
            Ok(())
        }
        Err(Err(ScramError::Refused)) => {
            shared.failures.wrong(peer, user);
            Err(wrong_password(user).into())
        }
        Err(Err(ScramError::Protocol(error))) => Err(error.into()),
        Err(Ok(refusal)) => Err(refusal),
    }
}

/// The messages of SCRAM; the proof is judged after `delay`. An error is ours (`Ok`) or SCRAM's (`Err`).
async fn exchange<S>(
    stream: &mut Stream<S>,
    input: &mut Input,
    output: &mut Output,
    verifier: Verifier,
    binding: Option<&[u8]>,
    delay: Duration,
) -> Result<(), Result<Refusal, ScramError>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let plus = binding.map(|_| scram::MECHANISM_PLUS.to_owned());
    let mechanisms = plus.into_iter().chain([scram::MECHANISM.to_owned()]).collect();
    let first = ask(stream, input, output, &Authentication::SASL(mechanisms)).await.map_err(Ok)?;
    let (exchange, answer) = Exchange::begin(first, verifier, binding).map_err(Err)?;
    let answer = Authentication::SASLContinue(answer.into());
    let last = ask(stream, input, output, &answer).await.map_err(Ok)?;
    tokio::time::sleep(delay).await;
    let proof = exchange.finish(&last).map_err(Err)?;
    output.put(&Authentication::SASLFinal(proof.into()));
    Ok(())
}

/// Sends a question of SASL and waits for the answer.
async fn ask<S>(
    stream: &mut Stream<S>,
    input: &mut Input,
    output: &mut Output,
    question: &Authentication,
) -> Result<Bytes, Refusal>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    output.put(question);
    stream.write_all(&output.buffer).await?;
    stream.flush().await?;
    output.buffer.clear();
    match input.next(stream, crate::wire::frontend::SMALL_BYTES_MAX).await? {
        Some(Message::Password(answer)) => Ok(answer),
        Some(_) => Err(ProtocolError::Unexpected("no password message").into()),
        None => Err(Refusal::Silent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(body: &[u8]) -> Result<Startup, ProtocolError> {
        parse_startup(196_608, Body(Bytes::copy_from_slice(body)))
    }

    #[test]
    fn startup_options_become_settings() {
        let startup = parsed(
            b"user\0ann\0database\0x\0options\0-c a=1 --b-c=2 -cd=x\\ y\0_pq_.new\x001\0tz\0UTC\0\0",
        );
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let expected = Startup {
            minor: 0,
            user: "ann".into(),
            settings: vec![pair("a", "1"), pair("b_c", "2"), pair("d", "x y"), pair("tz", "UTC")],
            unknown: vec!["_pq_.new".into()],
        };
        assert_eq!(startup, Ok(expected));
    }

    #[test]
    fn malformed_startup_packets_are_refused() {
        for body in [&b""[..], b"user\0", b"user\0ann\0", b"user\0ann\0\0x", b"\0", b"a\0b\0\0"] {
            assert!(parsed(body).is_err(), "{body:?}");
        }
        assert!(parse_startup(2 << 16, Body(Bytes::new())).is_err());
        assert!(parse_options("-x").is_err());
        assert!(parse_options("-c").is_err());
    }
}
