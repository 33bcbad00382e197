//! Addresses of networks: `inet`, `cidr` and `macaddr`, as their text, their bytes and their parts.
//!
//! An `inet` or `cidr` is stored in bytes that order as PostgreSQL orders addresses (IPv4 before IPv6, then the
//! network, then its length, then the host): `[family] [network] [bits] [address]`, 10 bytes of IPv4, 34 of IPv6. A
//! `cidr` has no host, and its bytes end after the bits. Vectors have values of one width, [`INET_WIDTH`] and
//! [`CIDR_WIDTH`]: [`widened`] fills with zeros, which changes no order, and [`narrowed`] takes them away.
//! A `macaddr` is its six bytes.
//!
//! Invariant, checked by `bytes_order_as_addresses_do`: the bytes of two values compare as [`Network`]s do.

use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt::Write;

use crate::error::{Result, TextProblem, ValueError};

/// Bytes of an `inet` in a vector.
pub const INET_WIDTH: usize = 34;
/// Bytes of a `cidr` in a vector.
pub const CIDR_WIDTH: usize = 18;
/// Bytes of a `macaddr`.
pub const MACADDR_WIDTH: usize = 6;

/// The first byte of an IPv4 address.
const V4: u8 = 4;
/// The first byte of an IPv6 address.
const V6: u8 = 6;

/// PostgreSQL's number of the family of IPv4 on the wire; the one of IPv6 is the next.
const WIRE_V4: u8 = 2;

/// An address and the length of its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// Whether it is IPv6.
    pub is_v6: bool,
    /// The address, IPv4 in the lower 32 bits.
    pub address: u128,
    /// Bits of the network, at most [`Network::width`].
    pub bits: u8,
}

impl Network {
    /// Bits of an address of the family.
    pub fn width(self) -> u8 {
        if self.is_v6 { 128 } else { 32 }
    }

    /// Ones where the family has bits.
    fn full(self) -> u128 {
        u128::MAX >> (128 - u32::from(self.width()))
    }

    /// Ones where the host's bits are.
    fn host_mask(self) -> u128 {
        u128::MAX.checked_shr(128 - u32::from(self.width() - self.bits)).unwrap_or(0)
    }

    fn with(self, address: u128, bits: u8) -> Self {
        Network { address, bits, ..self }
    }

    /// The network without its host.
    pub fn network(self) -> Self {
        self.with(self.address & !self.host_mask(), self.bits)
    }

    /// The last address of the network.
    pub fn broadcast(self) -> Self {
        self.with(self.address | self.host_mask(), self.bits)
    }

    /// Ones where the network's bits are.
    pub fn netmask(self) -> Self {
        self.with(self.full() & !self.host_mask(), self.width())
    }

    /// Ones where the host's bits are.
    pub fn hostmask(self) -> Self {
        self.with(self.host_mask(), self.width())
    }

    /// The same address with another length of its network; -1 is all bits. Errors: 22023.
    pub fn with_bits(self, bits: i64) -> Result<Self> {
        match u8::try_from(bits) {
            _ if bits == -1 => Ok(self.with(self.address, self.width())),
            Ok(bits) if bits <= self.width() => Ok(self.with(self.address, bits)),
            _ => Err(ValueError::worded(b"22023", alloc::format!("invalid mask length: {bits}"))),
        }
    }

    /// Whether `other` is this network or lies within.
    pub fn contains(self, other: Network) -> bool {
        let mask = !self.host_mask();
        self.is_v6 == other.is_v6
            && self.bits <= other.bits
            && self.address & mask == other.address & mask
    }

    /// The smallest network that both lie in. Errors: 22023 for two families.
    pub fn merged(self, other: Network) -> Result<Self> {
        if self.is_v6 != other.is_v6 {
            let message = "cannot merge addresses from different families";
            return Err(ValueError::worded(b"22023", message.into()));
        }
        let differing = 128 - (self.address ^ other.address).leading_zeros() as u8;
        let bits = self.bits.min(other.bits).min(self.width() - differing.min(self.width()));
        Ok(self.with(self.address, bits).network())
    }

    /// The address so many further on. Errors: 22003 beyond the family's addresses.
    pub fn plus(self, count: i64) -> Result<Self> {
        let address = self.address.checked_add_signed(count.into());
        match address.filter(|address| *address <= self.full()) {
            Some(address) => Ok(self.with(address, self.bits)),
            None => Err(out_of_range()),
        }
    }

    /// How many addresses lie between. Errors: 22023 for two families, 22003.
    pub fn minus(self, other: Network) -> Result<i64> {
        self.alike(other, "subtract")?;
        let difference = match self.address >= other.address {
            true => i64::try_from(self.address - other.address).ok(),
            false => 0i64.checked_sub_unsigned(
                u64::try_from(other.address - self.address).map_err(|_| out_of_range())?,
            ),
        };
        difference.ok_or_else(out_of_range)
    }

    /// The bits of both addresses put together. Errors: 22023 for two families.
    pub fn combined(
        self,
        other: Network,
        word: &str,
        with: fn(u128, u128) -> u128,
    ) -> Result<Self> {
        self.alike(other, word)?;
        Ok(self.with(with(self.address, other.address), self.bits.max(other.bits)))
    }

    fn alike(self, other: Network, word: &str) -> Result<()> {
        if self.is_v6 == other.is_v6 {
            return Ok(());
        }
        let message = alloc::format!("cannot {word} inet values of different sizes");
        Err(ValueError::worded(b"22023", message))
    }

    /// PostgreSQL's order.
    pub fn compare(self, other: Network) -> Ordering {
        let key = |of: Network| (of.is_v6, of.network().address, of.bits, of.address);
        key(self).cmp(&key(other))
    }

    /// The bytes of the value; `is_cidr`: without the host.
    pub fn encode(self, is_cidr: bool) -> Vec<u8> {
        let mut out = Vec::with_capacity(INET_WIDTH);
        out.push(if self.is_v6 { V6 } else { V4 });
        push_address(&mut out, self.is_v6, self.network().address);
        out.push(self.bits);
        if !is_cidr {
            push_address(&mut out, self.is_v6, self.address);
        }
        out
    }

    /// A value from its bytes, of a segment or of a vector.
    ///
    /// Panics: if they are not those of a value.
    pub fn decode(bytes: &[u8]) -> Self {
        let is_v6 = bytes[0] == V6;
        let length = if is_v6 { 16 } else { 4 };
        let address = |from: usize| {
            bytes[from..from + length].iter().fold(0, |all, byte| all << 8 | u128::from(*byte))
        };
        let bits = bytes[1 + length];
        // A `cidr` in a vector has zeros behind its bits, and its network is its address.
        let is_cidr = bytes.len() == CIDR_WIDTH || bytes.len() == 2 + length;
        let address = if is_cidr { address(1) } else { address(2 + length) };
        Network { is_v6, address, bits }
    }

    /// The value as PostgreSQL sends it: family, bits, whether it is a `cidr`, bytes, address.
    pub fn to_wire(self, is_cidr: bool) -> Vec<u8> {
        let length = self.width() / 8;
        let mut out =
            [WIRE_V4 + u8::from(self.is_v6), self.bits, u8::from(is_cidr), length].to_vec();
        push_address(&mut out, self.is_v6, self.address);
        out
    }

    /// The inverse of [`Network::to_wire`]. `None`: the bytes are no value, or a `cidr` with a host.
    pub fn of_wire(bytes: &[u8], is_cidr: bool) -> Option<Self> {
        let ([family, bits, _, length], address) = bytes.split_first_chunk::<4>()?;
        let is_v6 = *family == WIRE_V4 + 1;
        let all = Network { is_v6, address: 0, bits: *bits };
        let is_whole = (is_v6 || *family == WIRE_V4)
            && *bits <= all.width()
            && usize::from(*length) == address.len()
            && *length == all.width() / 8;
        let address = address.iter().fold(0, |all, byte| all << 8 | u128::from(*byte));
        let network = is_whole.then(|| all.with(address, *bits))?;
        (!is_cidr || network == network.network()).then_some(network)
    }

    /// The address without the network's length.
    pub fn write_host(self, out: &mut String) {
        match self.is_v6 {
            true => write_v6(self.address, out),
            false => write_v4(self.address as u32, out),
        }
    }

    /// The value as its type shows it: `cidr` and `full` with the length, `inet` with one that is not all bits.
    pub fn write(self, is_full: bool, out: &mut String) {
        self.write_host(out);
        if is_full || self.bits != self.width() {
            self.write_bits(out);
        }
    }

    fn write_bits(self, out: &mut String) {
        write!(out, "/{}", self.bits).expect("a string takes everything");
    }

    /// A `cidr` in the shortest form: without the bytes, of IPv6 the words, behind the network.
    pub fn write_short(self, out: &mut String) {
        if self.is_v6 {
            let words = usize::from(self.bits.div_ceil(16)).max(1);
            if words == 8 {
                write_v6(self.address, out);
            } else {
                let word = |at: usize| (self.address >> (112 - 16 * at)) as u16;
                let shown = (0..words).map(|at| alloc::format!("{:x}", word(at)));
                let shown: Vec<String> = shown.collect();
                match self.bits {
                    0 => out.push_str("::"),
                    _ => out.push_str(&shown.join(":")),
                }
            }
        } else {
            let bytes = usize::from(self.bits.div_ceil(8)).max(1);
            for (at, byte) in (self.address as u32).to_be_bytes()[..bytes].iter().enumerate() {
                let dot = if at == 0 { "" } else { "." };
                write!(out, "{dot}{byte}").expect("a string takes everything");
            }
        }
        self.write_bits(out);
    }
}

fn out_of_range() -> ValueError {
    ValueError::worded(b"22003", "result is out of range".into())
}

fn push_address(out: &mut Vec<u8>, is_v6: bool, address: u128) {
    let bytes = address.to_be_bytes();
    out.extend_from_slice(if is_v6 { &bytes } else { &bytes[12..] });
}

/// The bytes of a vector's value without the zeros that fill it.
pub fn narrowed(bytes: &[u8]) -> &[u8] {
    let (v4, v6) = match bytes.len() {
        INET_WIDTH => (10, INET_WIDTH),
        CIDR_WIDTH => (6, CIDR_WIDTH),
        _ => return bytes,
    };
    &bytes[..if bytes[0] == V6 { v6 } else { v4 }]
}

/// The bytes of a value in the width of a vector.
///
/// Panics: if the value is longer.
pub fn widened(bytes: &[u8], width: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(width);
    out.extend_from_slice(bytes);
    assert!(out.len() <= width, "a value of {} bytes in {width}", out.len());
    out.resize(width, 0);
    out
}

fn write_v4(address: u32, out: &mut String) {
    let [a, b, c, d] = address.to_be_bytes();
    write!(out, "{a}.{b}.{c}.{d}").expect("a string takes everything");
}

/// IPv6 with its first longest run of zeros as `::`, and IPv4 within as such.
fn write_v6(address: u128, out: &mut String) {
    let word = |at: usize| (address >> (112 - 16 * at)) as u16;
    let (mut start, mut length) = (8, 1);
    let mut at = 0;
    while at < 8 {
        let run = (at..8).take_while(|at| word(*at) == 0).count();
        if run > length {
            (start, length) = (at, run);
        }
        at += run.max(1);
    }
    let is_v4 = start == 0
        && (length == 6 || length == 7 && word(7) != 1 || length == 5 && word(5) == 0xffff);
    let mut at = 0;
    while at < 8 {
        if at == start {
            out.push_str("::");
            at += length;
            continue;
        }
        if at > 0 && at != start + length {
            out.push(':');
        }
        if at == 6 && is_v4 {
            return write_v4(address as u32, out);
        }
        write!(out, "{:x}", word(at)).expect("a string takes everything");
        at += 1;
    }
}

/// Reads an `inet`. Errors: 22P02.
pub fn parse_inet(text: &str) -> Result<Network> {
    parse(text, false).ok_or_else(|| bad("inet", text))
}

/// Reads a `cidr`, whose bytes at the end may be left out. Errors: 22P02, also if bits of a host are set.
pub fn parse_cidr(text: &str) -> Result<Network> {
    let value = parse(text, true).ok_or_else(|| bad("cidr", text))?;
    if value == value.network() {
        return Ok(value);
    }
    Err(with_host(text))
}

#[cold]
fn with_host(text: &str) -> ValueError {
    let mut error = ValueError::worded(b"22P02", alloc::format!("invalid cidr value: \"{text}\""));
    if let ValueError::Worded(worded) = &mut error {
        worded.detail = Some("Value has bits set to right of mask.".into());
    }
    error
}

fn bad(ty: &'static str, text: &str) -> ValueError {
    ValueError::text(TextProblem::Syntax, ty, text)
}

/// A number in decimal digits, at most `most`.
fn digits(text: &str, most: u32) -> Option<u8> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number: u32 = text.parse().ok().filter(|_| is_number)?;
    (number <= most).then_some(number as u8)
}

fn parse(text: &str, is_cidr: bool) -> Option<Network> {
    let (host, bits) = match text.split_once('/') {
        Some((host, bits)) => (host, Some(bits)),
        None => (text, None),
    };
    if host.contains(':') {
        let address: core::net::Ipv6Addr = host.parse().ok()?;
        let bits = bits.map_or(Some(128), |bits| digits(bits, 128))?;
        return Some(Network { is_v6: true, address: address.into(), bits });
    }
    let mut bytes = [0; 4];
    let mut count = 0;
    for part in host.split('.') {
        *bytes.get_mut(count)? = digits(part, 255)?;
        count += 1;
    }
    let bits = match bits {
        Some(bits) => digits(bits, 32)?,
        None if count == 4 => 32,
        None if is_cidr => {
            // The length of the network that such an address had before lengths were written.
            let class = match bytes[0] {
                240.. => 32,
                224.. => 8,
                192.. => 24,
                128.. => 16,
                _ => 8,
            };
            class.max(8 * count as u8)
        }
        None => return None,
    };
    // Bytes that are left out are the host's.
    (count == 4 || usize::from(bits) <= 8 * count || is_cidr).then_some(())?;
    Some(Network { is_v6: false, address: u32::from_be_bytes(bytes).into(), bits })
}

/// Reads a `macaddr`: twelve hexadecimal digits in groups of 1, 2, 3 or 6 bytes, or without any. Errors: 22P02.
pub fn parse_macaddr(text: &str) -> Result<[u8; MACADDR_WIDTH]> {
    let trimmed = text.trim();
    mac_of_bytes(trimmed).or_else(|| mac_of_groups(trimmed)).ok_or_else(|| bad("macaddr", text))
}

/// Six bytes of one or two digits each, between `:` or `-`.
fn mac_of_bytes(text: &str) -> Option<[u8; MACADDR_WIDTH]> {
    let sign = if text.contains(':') { ':' } else { '-' };
    let mut mac = [0; MACADDR_WIDTH];
    let mut count = 0;
    for part in text.split(sign) {
        (part.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(())?;
        (1..=2).contains(&part.len()).then_some(())?;
        *mac.get_mut(count)? = u8::from_str_radix(part, 16).ok()?;
        count += 1;
    }
    (count == MACADDR_WIDTH).then_some(mac)
}

/// Twelve digits: `xxxxxxxxxxxx`, two groups with `:` or `-`, three with `.` or `-`.
fn mac_of_groups(text: &str) -> Option<[u8; MACADDR_WIDTH]> {
    let groups: Vec<&str> = text.split([':', '-', '.']).collect();
    let sign = text.chars().find(|c| matches!(c, ':' | '-' | '.'));
    let (length, signs): (usize, &[Option<char>]) = match groups.len() {
        1 => (12, &[None]),
        2 => (6, &[Some(':'), Some('-')]),
        3 => (4, &[Some('.'), Some('-')]),
        _ => return None,
    };
    let one_sign = text.chars().filter(|c| !c.is_ascii_hexdigit()).all(|c| Some(c) == sign);
    (signs.contains(&sign) && one_sign).then_some(())?;
    (groups.iter().all(|group| group.len() == length)).then_some(())?;
    let digits: String = groups.concat();
    let all = u64::from_str_radix(&digits, 16).ok()?;
    all.to_be_bytes()[2..].try_into().ok()
}

/// Six bytes as `08:00:2b:01:02:03`.
pub fn write_macaddr(mac: &[u8], out: &mut String) {
    for (at, byte) in mac.iter().enumerate() {
        let sign = if at == 0 { "" } else { ":" };
        write!(out, "{sign}{byte:02x}").expect("a string takes everything");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn inet(text: &str) -> Network {
        parse_inet(text).expect(text)
    }

    fn shown(value: Network, is_full: bool) -> String {
        let mut out = String::new();
        value.write(is_full, &mut out);
        out
    }

    #[test]
    fn texts_are_read_and_written_as_postgresql_does() {
        for (text, expected) in [
            ("10.1/16", "10.1.0.0/16"),
            ("10.0.0.1/8", "10.0.0.1/8"),
            ("010.1.1.1", "10.1.1.1"),
            ("10.0.0.1/08", "10.0.0.1/8"),
            ("::1", "::1"),
            ("::1/64", "::1/64"),
            ("2001:DB8::1", "2001:db8::1"),
            ("::ffff:10.1.2.3", "::ffff:10.1.2.3"),
            ("::10.1.2.3", "::10.1.2.3"),
            ("1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"),
            ("1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"),
            ("1::3:4:5:6:7:8", "1:0:3:4:5:6:7:8"),
            ("1:0:0:4::8", "1:0:0:4::8"),
            ("::", "::"),
            ("fe80::", "fe80::"),
        ] {
            assert_eq!(shown(inet(text), false), expected, "{text}");
        }
        for text in [
            "10.1",
            "10.0.0.1/33",
            "10.0.0.1/ 8",
            " 10.0.0.1",
            "256.1.1.1",
            "::1%eth0",
            "",
            "10.0.0.1/",
        ] {
            assert_eq!(parse_inet(text), Err(bad("inet", text)), "{text}");
        }
        for (text, expected) in [
            ("10.1", "10.1.0.0/16"),
            ("192.168.1/24", "192.168.1.0/24"),
            ("192.168", "192.168.0.0/24"),
            ("::1", "::1/128"),
            ("10.0.0.1", "10.0.0.1/32"),
        ] {
            assert_eq!(shown(parse_cidr(text).expect(text), true), expected, "{text}");
        }
        let error = parse_cidr("10.0.0.1/8").expect_err("a host");
        assert_eq!(error.to_string(), "invalid cidr value: \"10.0.0.1/8\"");
    }

    #[test]
    fn short_forms_leave_the_host_out() {
        for (text, expected) in [
            ("10.1.0.0/16", "10.1/16"),
            ("10.0.0.0/12", "10.0/12"),
            ("192.168.1.0/24", "192.168.1/24"),
            ("0.0.0.0/0", "0/0"),
            ("2001:db8::/32", "2001:db8/32"),
            ("2001:db8::1", "2001:db8::1/128"),
        ] {
            let mut out = String::new();
            parse_cidr(text).expect(text).write_short(&mut out);
            assert_eq!(out, expected, "{text}");
        }
    }

    #[test]
    fn bytes_order_as_addresses_do() {
        let texts = [
            "0.0.0.0/0",
            "10.0.0.0/8",
            "10.0.0.1/8",
            "10.255.0.0/8",
            "10.0.0.0/9",
            "10.0.0.0",
            "10.0.0.1",
            "10.1.0.0/16",
            "255.255.255.255",
            "::/0",
            "::1",
            "2001:db8::/32",
            "2001:db8::5/32",
            "2001:db8::5",
        ];
        for one in texts.map(inet) {
            for other in texts.map(inet) {
                let bytes = |value: Network| widened(&value.encode(false), INET_WIDTH);
                assert_eq!(bytes(one).cmp(&bytes(other)), one.compare(other), "{one:?} {other:?}");
                assert_eq!(
                    one.encode(false).cmp(&other.encode(false)),
                    one.compare(other),
                    "{one:?} {other:?}"
                );
            }
            let wide = widened(&one.encode(false), INET_WIDTH);
            assert_eq!(narrowed(&wide), one.encode(false));
            assert_eq!((Network::decode(&wide), Network::decode(narrowed(&wide))), (one, one));
            let network = one.network();
            let wide = widened(&network.encode(true), CIDR_WIDTH);
            assert_eq!(
                (Network::decode(&wide), Network::decode(narrowed(&wide))),
                (network, network)
            );
            assert_eq!(Network::of_wire(&one.to_wire(false), false), Some(one));
        }
    }

    #[test]
    fn parts_are_those_of_the_network() {
        let value = inet("10.1.2.3/12");
        assert_eq!(shown(value.network(), true), "10.0.0.0/12");
        assert_eq!(shown(value.broadcast(), true), "10.15.255.255/12");
        assert_eq!(shown(value.netmask(), false), "255.240.0.0");
        assert_eq!(shown(value.hostmask(), false), "0.15.255.255");
        assert_eq!(
            shown(inet("10.0.0.1").merged(inet("10.0.3.1")).expect("one family"), true),
            "10.0.0.0/22"
        );
        assert_eq!(shown(inet("::1").merged(inet("8000::1")).expect("one family"), true), "::/0");
        assert!(
            inet("10.0.0.0/8").contains(inet("10.2.0.0/16"))
                && !inet("10.2.0.0/16").contains(value)
        );
        assert!(inet("0.0.0.0/0").contains(value) && !inet("::/0").contains(value));
        assert_eq!(inet("10.0.0.3").minus(inet("10.0.0.1")), Ok(2));
        assert_eq!(inet("10.0.0.1").minus(inet("10.0.0.3")), Ok(-2));
        assert!(inet("255.255.255.255").plus(1).is_err() && inet("0.0.0.0").plus(-1).is_err());
    }

    /// What is read comes back from its text, its bytes and the wire; everything else is an error.
    #[test]
    fn any_text_and_any_bytes_are_read_or_refused_fuzz() {
        let mut state = 1u64;
        let mut any = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        let mut read = 0;
        for _ in 0..200_000 {
            let signs = b"0123456789abcdef.:./%-";
            let text: String = (0..any(22)).map(|_| char::from(signs[any(signs.len())])).collect();
            for (value, is_cidr) in [(parse_inet(&text), false), (parse_cidr(&text), true)] {
                let Ok(value) = value else { continue };
                read += 1;
                let again = if is_cidr { parse_cidr } else { parse_inet };
                assert_eq!(again(&shown(value, true)), Ok(value), "{text}");
                assert_eq!(Network::decode(&value.encode(is_cidr)), value, "{text}");
                assert_eq!(Network::of_wire(&value.to_wire(is_cidr), is_cidr), Some(value));
            }
            let _ = parse_macaddr(&text);
            let bytes: Vec<u8> = (0..any(22)).map(|_| any(40) as u8).collect();
            if let Some(value) = Network::of_wire(&bytes, false) {
                assert_eq!(Network::of_wire(&value.to_wire(false), false), Some(value));
            }
        }
        assert!(read > 100, "{read}");
    }

    #[test]
    fn a_hardware_address_is_read_in_all_spellings() {
        for text in [
            "08:00:2b:01:02:03",
            "8:0:2b:1:2:3",
            "08-00-2b-01-02-03",
            "08002b:010203",
            "08002b-010203",
            "0800.2b01.0203",
            "0800-2b01-0203",
            "08002B010203",
            " 08002b010203 ",
        ] {
            let mut out = String::new();
            write_macaddr(&parse_macaddr(text).expect(text), &mut out);
            assert_eq!(out, "08:00:2b:01:02:03", "{text}");
        }
        for text in
            ["", "x", "08:00:2b:01:02", "08:00:2b:01:02:03:04", "0800:2b01:0203", "08002b01020"]
        {
            assert_eq!(parse_macaddr(text), Err(bad("macaddr", text)), "{text}");
        }
    }
}
