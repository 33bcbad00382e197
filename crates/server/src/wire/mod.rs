//! Messages of PostgreSQL's protocol 3, as bytes.
//!
//! Words: a *frame* is a message as it lies in the stream: type byte, length, body. The
//! *frontend* is the client, the *backend* is this server.
//! The backend's messages are encoded by `pgwire`, those sent per row by [`backend`] itself. The
//! frontend's are decoded by [`frontend`]: `pgwire`'s decoder trusts counts and lengths within a
//! body and panics if they exceed the body, while [`frontend`] refuses them.
//! Source: PostgreSQL 17, chapter 53 (Frontend/Backend Protocol).

pub mod backend;
pub mod frontend;
pub mod input;
