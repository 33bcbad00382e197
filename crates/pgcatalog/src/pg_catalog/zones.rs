//! Time zones by name and by abbreviation.

use std::collections::BTreeSet;

use crate::Context;
use crate::view::{Span, Text, row, system_tables};
use halcyon_base::clock;
use halcyon_sql::coerce::TimeZone;

system_tables! {
    pg_timezone_names: NameRow from names {
        name: Text,
        abbrev: Text,
        utc_offset: Span,
        is_dst: bool,
    }

    pg_timezone_abbrevs: AbbreviationRow from abbreviations {
        abbrev: Text,
        utc_offset: Span,
        is_dst: bool,
    }
}

const SECOND_US: i64 = 1_000_000;

/// The zones as they are at present.
fn names(_: &Context, rows: &mut Vec<NameRow>) {
    let now = clock::wall_us();
    for (name, zone) in TimeZone::all() {
        row!(rows; NameRow {
            name: name,
            abbrev: zone.abbreviation_at(now),
            utc_offset: i64::from(zone.offset_at(now)) * SECOND_US,
            is_dst: zone.is_summer_at(now),
        });
    }
}

/// The abbreviations that zones have at present or half a year from now, each with one of its offsets.
fn abbreviations(_: &Context, rows: &mut Vec<AbbreviationRow>) {
    const HALF_A_YEAR_US: i64 = 182 * 86_400 * SECOND_US;
    let now = clock::wall_us();
    let mut seen = BTreeSet::new();
    for (_, zone) in TimeZone::all() {
        for at in [now, now + HALF_A_YEAR_US] {
            let abbreviation = zone.abbreviation_at(at);
            // Zones without one have their offset there.
            let is_word = abbreviation.bytes().all(|byte| byte.is_ascii_uppercase());
            if is_word && seen.insert(abbreviation.clone()) {
                row!(rows; AbbreviationRow {
                    abbrev: abbreviation,
                    utc_offset: i64::from(zone.offset_at(at)) * SECOND_US,
                    is_dst: zone.is_summer_at(at),
                });
            }
        }
    }
}
