//! Sizes in the words of settings.

/// Bytes of a size as settings show it: a whole number and its unit; `None` if it is none.
pub fn bytes_of(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let unit = match text[digits..].trim() {
        // Nothing but 0 is shown without a unit.
        "" if number == 0 => 1,
        "B" => 1,
        "kB" => 1 << 10,
        "MB" => 1 << 20,
        "GB" => 1 << 30,
        "TB" => 1 << 40,
        _ => return None,
    };
    number.checked_mul(unit)
}

/// A size for people.
pub fn size(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = units.iter().find(|(_, shift)| bytes >> shift > 0);
    match unit {
        Some((name, shift)) => {
            let whole = bytes >> shift;
            let tenths = ((bytes >> (shift - 10)) & 1023) * 10 / 1024;
            format!("{whole}.{tenths} {name}")
        }
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_settings_are_and_shown_by_their_unit() {
        let cases = [("0", 0), ("3GB", 3 << 30), ("512 MB", 512 << 20), ("1kB", 1024), ("5B", 5)];
        for (text, bytes) in cases {
            assert_eq!(bytes_of(text), Some(bytes), "{text}");
        }
        for text in ["", "GB", "3XB", "-1", "16", "99999999999999TB"] {
            assert_eq!(bytes_of(text), None, "{text}");
        }
        assert_eq!(size(1536 << 20), "1.5 GiB");
        assert_eq!((size(10), size(2048)), ("10 bytes".into(), "2.0 KiB".into()));
    }
}
