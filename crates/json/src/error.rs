//! Why a text is no JSON, or a document has no such part.

/// Result of reading or changing a document.
pub type Result<T, E = JsonError> = std::result::Result<T, E>;

/// An error with what PostgreSQL tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError(Box<Told>);

/// What a [`JsonError`] tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// SQLSTATE.
    pub state: [u8; 5],
    /// PostgreSQL's message.
    pub message: String,
    /// The detail line, if there is one.
    pub detail: Option<String>,
    /// The hint line, if there is one.
    pub hint: Option<String>,
    /// Where in the text the error is, if it is in one.
    pub context: Option<String>,
}

const INTERRUPTED: [u8; 5] = *b"57014";

impl JsonError {
    /// An error with state and message.
    pub fn new(state: &[u8; 5], message: impl Into<String>) -> Self {
        JsonError(Box::new(Told { state: *state, message: message.into(), ..Told::default() }))
    }

    /// 57014: the statement is to end; which reason it has is known to those who run it.
    #[cold]
    pub(crate) fn interrupted() -> Self {
        Self::new(&INTERRUPTED, "canceling statement")
    }

    /// Whether it stands for an end of the statement and tells nothing of a document.
    pub fn is_interrupt(&self) -> bool {
        self.0.state == INTERRUPTED
    }

    /// 22023: the document is of another kind than the operation takes.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(b"22023", message)
    }

    pub(crate) fn detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    pub(crate) fn context(mut self, context: impl Into<String>) -> Self {
        self.0.context = Some(context.into());
        self
    }

    /// What it tells.
    pub fn told(&self) -> &Told {
        &self.0
    }
}
