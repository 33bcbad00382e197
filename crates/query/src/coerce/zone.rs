//! Time zones: fixed offsets and names of the tz database.

use chrono::{NaiveDateTime, Offset, TimeZone as _};

use crate::error::{Result, SqlError, SqlState};

/// A time zone that local times are read and shown in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeZone {
    /// Seconds east of UTC.
    Fixed(i32),
    /// A zone of the tz database.
    Named(chrono_tz::Tz),
}

impl Default for TimeZone {
    fn default() -> Self {
        TimeZone::UTC
    }
}

impl TimeZone {
    /// UTC itself.
    pub const UTC: TimeZone = TimeZone::Fixed(0);

    /// Reads `UTC`, `Z`, `±HH[:MM[:SS]]`, `±HHMM` or a name of the tz database in any case.
    ///
    /// Offsets count eastwards, as in ISO 8601. Errors: 22023.
    pub fn parse(text: &str) -> Result<TimeZone> {
        let trimmed = super::number::trim(text);
        if ["utc", "z", "gmt", "zulu"].iter().any(|name| trimmed.eq_ignore_ascii_case(name)) {
            return Ok(TimeZone::UTC);
        }
        if let Some(seconds) = parse_offset(trimmed) {
            return Ok(TimeZone::Fixed(seconds));
        }
        if let Ok(hours) = trimmed.parse::<i32>()
            && hours.abs() < 16
        {
            return Ok(TimeZone::Fixed(hours * 3600));
        }
        let named =
            chrono_tz::TZ_VARIANTS.iter().find(|zone| zone.name().eq_ignore_ascii_case(trimmed));
        named.map(|zone| TimeZone::Named(*zone)).ok_or_else(|| {
            SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("time zone \"{text}\" not recognized"),
            )
        })
    }

    /// Seconds east of UTC at a moment in UTC microseconds.
    pub fn offset_at(&self, utc_us: i64) -> i32 {
        match self {
            TimeZone::Fixed(seconds) => *seconds,
            TimeZone::Named(zone) => match naive(utc_us) {
                Some(moment) => zone.offset_from_utc_datetime(&moment).fix().local_minus_utc(),
                None => 0,
            },
        }
    }

    /// The moment that a local time names. In a gap the offset before it holds; what happens
    /// twice is read as standard time. Both as PostgreSQL does.
    pub fn to_utc(&self, local_us: i64) -> Option<i64> {
        let offset = match self {
            TimeZone::Fixed(seconds) => *seconds,
            TimeZone::Named(zone) => match naive(local_us) {
                Some(local) => match zone.offset_from_local_datetime(&local) {
                    chrono::LocalResult::Single(offset) => offset.fix().local_minus_utc(),
                    chrono::LocalResult::Ambiguous(first, second) => {
                        first.fix().local_minus_utc().min(second.fix().local_minus_utc())
                    }
                    chrono::LocalResult::None => self.offset_at(local_us - 86_400_000_000),
                },
                None => 0,
            },
        };
        local_us.checked_sub(offset as i64 * 1_000_000)
    }

    /// The local time of a moment.
    pub fn to_local(&self, utc_us: i64) -> Option<i64> {
        utc_us.checked_add(self.offset_at(utc_us) as i64 * 1_000_000)
    }
}

fn naive(us: i64) -> Option<NaiveDateTime> {
    chrono::DateTime::from_timestamp_micros(us).map(|moment| moment.naive_utc())
}

/// `±HH`, `±HHMM`, `±HH:MM`, `±HH:MM:SS` in seconds.
pub(super) fn parse_offset(text: &str) -> Option<i32> {
    let (sign, rest) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let number = |digits: &str| -> Option<i32> {
        (!digits.is_empty() && digits.len() <= 2 && digits.bytes().all(|b| b.is_ascii_digit()))
            .then(|| digits.parse().ok())
            .flatten()
    };
    let (hours, minutes, seconds) = if rest.contains(':') {
        let mut parts = rest.split(':');
        let found =
            (number(parts.next()?)?, number(parts.next()?)?, parts.next().map_or(Some(0), number)?);
        parts.next().is_none().then_some(found)?
    } else if rest.len() == 4 && rest.is_ascii() {
        (number(&rest[..2])?, number(&rest[2..])?, 0)
    } else {
        (number(rest)?, 0, 0)
    };
    (hours < 16 && minutes < 60 && seconds < 60)
        .then(|| sign * (hours * 3600 + minutes * 60 + seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_offsets_or_names() {
        assert_eq!(TimeZone::parse("utc").ok(), Some(TimeZone::UTC));
        assert_eq!(TimeZone::parse("+05:30").ok(), Some(TimeZone::Fixed(19800)));
        assert_eq!(TimeZone::parse("-0800").ok(), Some(TimeZone::Fixed(-28800)));
        assert_eq!(TimeZone::parse("2").ok(), Some(TimeZone::Fixed(7200)));
        let berlin = TimeZone::parse("europe/berlin").expect("a name of the tz database");
        assert_eq!(berlin.offset_at(1_600_000_000_000_000), 7200);
        assert_eq!(berlin.offset_at(1_606_000_000_000_000), 3600);
        for bad in ["", "Nowhere/Here", "+99", "+1:2:3:4"] {
            let error = TimeZone::parse(bad).unwrap_err();
            assert_eq!(error.state(), SqlState::INVALID_PARAMETER_VALUE, "{bad:?}");
        }
    }

    #[test]
    fn local_times_in_gaps_and_overlaps_have_a_moment() {
        let berlin = TimeZone::parse("Europe/Berlin").expect("a name of the tz database");
        // 2021-03-28 02:30 does not exist: read with the offset before the gap.
        let gap = 1_616_898_600_000_000;
        assert_eq!(berlin.to_utc(gap), Some(gap - 3_600_000_000));
        // 2021-10-31 02:30 happens twice: standard time is meant, as PostgreSQL does.
        let twice = 1_635_647_400_000_000;
        assert_eq!(berlin.to_utc(twice), Some(twice - 3_600_000_000));
    }
}
