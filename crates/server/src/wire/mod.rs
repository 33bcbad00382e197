//! Messages of PostgreSQL's protocol 3, as bytes.
//!
//! Words: a *frame* is a message as it lies in the stream: type byte, length, body. The
//! *frontend* is the client, the *backend* is us.
//! The backend's messages are encoded by `pgwire`, those sent per row by [`backend`] itself. The
//! frontend's are decoded by [`frontend`]: `pgwire`'s decoder trusts counts and lengths within a
//! body and panics if they reach beyond it, ours refuses them.
//! Source: PostgreSQL 17, chapter 53 (Frontend/Backend Protocol).

pub mod backend;
pub mod frontend;
pub mod input;
