//! A text that asks before it grows.

use super::{BYTES_MAX, error};
use halcyon_sql::error::{Result, SqlError, SqlState};

/// Below so many bytes a text grows without asking.
const SMALL: usize = 1 << 20;

/// A result that is put together, and may become much longer than what it is made of.
///
/// Errors of what appends: 54000 beyond the bytes that a result may have; 53200, 57014 if the statement may not
/// have the memory, or is to end.
#[derive(Default)]
pub(super) struct GrowingText(String);

impl GrowingText {
    /// An empty text with room for so many bytes.
    pub(super) fn with_capacity(bytes: usize) -> Result<Self> {
        let mut text = GrowingText::default();
        text.reserve(bytes)?;
        Ok(text)
    }

    pub(super) fn push(&mut self, character: char) -> Result<()> {
        self.reserve(character.len_utf8())?;
        self.0.push(character);
        Ok(())
    }

    pub(super) fn push_str(&mut self, text: &str) -> Result<()> {
        self.reserve(text.len())?;
        self.0.push_str(text);
        Ok(())
    }

    /// Appends so many blanks.
    pub(super) fn push_blanks(&mut self, count: usize) -> Result<()> {
        self.reserve(count)?;
        self.0.extend(std::iter::repeat_n(' ', count));
        Ok(())
    }

    /// Empties the text, whose room is kept.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }

    #[inline]
    fn reserve(&mut self, bytes: usize) -> Result<()> {
        match self.0.capacity() - self.0.len() >= bytes {
            true => Ok(()),
            false => self.grow(bytes),
        }
    }

    #[cold]
    fn grow(&mut self, bytes: usize) -> Result<()> {
        let length = self.0.len().saturating_add(bytes);
        if length > BYTES_MAX {
            let message = "requested length too large";
            return Err(error(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        let capacity = length.max(2 * self.0.capacity()).min(BYTES_MAX);
        if capacity >= SMALL {
            SqlError::unless_interrupted()?;
            SqlError::unless_refused(capacity as u64)?;
        }
        self.0.reserve_exact(capacity - self.0.len());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_appended_is_there_and_too_much_is_refused() {
        let (mut text, mut twin) = (GrowingText::with_capacity(3).expect("room"), String::new());
        for count in 0..200 {
            text.push('ü').expect("room");
            text.push_str(&"ab".repeat(count)).expect("room");
            text.push_blanks(count).expect("room");
            twin.push('ü');
            twin.push_str(&"ab".repeat(count));
            twin.push_str(&" ".repeat(count));
        }
        let state = |result: Result<()>| result.expect_err("too much").state();
        assert_eq!(state(text.push_blanks(BYTES_MAX)), SqlState::PROGRAM_LIMIT_EXCEEDED);
        assert_eq!(state(text.push_blanks(usize::MAX)), SqlState::PROGRAM_LIMIT_EXCEEDED);
        assert_eq!(text.into_string(), twin);
    }
}
