//! `host`, `netmask` and the other functions and operators of addresses (`inet`, `cidr`).

use super::{Arguments, Gives, Kind, Row, text};
use datafusion::common::ScalarValue;
use halcyon_sql::types::SqlType;
use halcyon_sql::values::address_scalar;
use halcyon_value::network::Network;

const ONE: &[Kind] = &[Kind::Network];
const TWO: &[Kind] = &[Kind::Network, Kind::Network];
const AND_NUMBER: &[Kind] = &[Kind::Network, Kind::Integer];

const LIES_IN: &str = "Whether the first address lies in the network of the second.";
const HOLDS: &str = "Whether the second address lies in the network of the first.";

pub(super) const ROWS: &[Row] = &[
    Row::new("host", "The address without the length of its network.", ONE, Gives::Text, |args| {
        Ok(written(|out| args.network(0).write_host(out)))
    }),
    Row::new("abbrev", "The address in its shortest form.", &[Kind::Cidr], Gives::Text, |args| {
        Ok(written(|out| args.network(0).write_short(out)))
    }),
    Row::new("abbrev", "The address in its shortest form.", ONE, Gives::Text, |args| {
        Ok(written(|out| args.network(0).write(false, out)))
    }),
    Row::new("family", "4 of IPv4, 6 of IPv6.", ONE, Gives::Integer, |args| {
        Ok(number(if args.network(0).is_v6 { 6 } else { 4 }))
    }),
    Row::new("masklen", "How many bits the network has.", ONE, Gives::Integer, |args| {
        Ok(number(args.network(0).bits.into()))
    }),
    Row::new("netmask", "Ones in the bits of the network.", ONE, Gives::Inet, |args| {
        Ok(inet(args.network(0).netmask()))
    }),
    Row::new("hostmask", "Ones in the bits of the host.", ONE, Gives::Inet, |args| {
        Ok(inet(args.network(0).hostmask()))
    }),
    Row::new("broadcast", "The last address of the network.", ONE, Gives::Inet, |args| {
        Ok(inet(args.network(0).broadcast()))
    }),
    Row::new("network", "The network without the host.", ONE, Gives::Cidr, |args| {
        Ok(cidr(args.network(0).network()))
    }),
    Row::new(
        "set_masklen",
        "The network with so many bits; all for -1.",
        &[Kind::Cidr, Kind::Integer],
        Gives::Cidr,
        |args| Ok(cidr(args.network(0).with_bits(args.integer(1))?.network())),
    ),
    Row::new(
        "set_masklen",
        "The address with a network of so many bits; of all for -1.",
        AND_NUMBER,
        Gives::Inet,
        |args| Ok(inet(args.network(0).with_bits(args.integer(1))?)),
    ),
    Row::new(
        "inet_same_family",
        "Whether both are of IPv4, or of IPv6.",
        TWO,
        Gives::Bool,
        |args| Ok(truth(args.network(0).is_v6 == args.network(1).is_v6)),
    ),
    Row::new("inet_merge", "The smallest network with both addresses.", TWO, Gives::Cidr, |args| {
        Ok(cidr(args.network(0).merged(args.network(1))?))
    }),
    Row::new("<<", LIES_IN, TWO, Gives::Bool, |args| {
        let (inner, outer) = (args.network(0), args.network(1));
        Ok(truth(outer.contains(inner) && outer.bits < inner.bits))
    }),
    Row::new("<<=", LIES_IN, TWO, Gives::Bool, |args| {
        Ok(truth(args.network(1).contains(args.network(0))))
    }),
    Row::new(">>", HOLDS, TWO, Gives::Bool, |args| {
        let (outer, inner) = (args.network(0), args.network(1));
        Ok(truth(outer.contains(inner) && outer.bits < inner.bits))
    }),
    Row::new(">>=", HOLDS, TWO, Gives::Bool, |args| {
        Ok(truth(args.network(0).contains(args.network(1))))
    }),
    Row::new("&&", "Whether one network holds the other.", TWO, Gives::Bool, |args| {
        let (one, other) = (args.network(0), args.network(1));
        Ok(truth(one.contains(other) || other.contains(one)))
    }),
    Row::new("&", "The bits that both addresses have.", TWO, Gives::Inet, |args| {
        Ok(inet(args.network(0).combined(args.network(1), "AND", |a, b| a & b)?))
    }),
    Row::new("|", "The bits that an address has.", TWO, Gives::Inet, |args| {
        Ok(inet(args.network(0).combined(args.network(1), "OR", |a, b| a | b)?))
    }),
    Row::new("inet\u{1}+", "The address so many further on.", AND_NUMBER, Gives::Inet, |args| {
        Ok(inet(args.network(0).plus(args.integer(1))?))
    }),
    Row::new(
        "inet\u{1}+",
        "The address so many further on.",
        &[Kind::Integer, Kind::Network],
        Gives::Inet,
        |args| Ok(inet(args.network(1).plus(args.integer(0))?)),
    ),
    Row::new("inet\u{1}-", "How many addresses lie between.", TWO, Gives::BigInt, |args| {
        Ok(ScalarValue::Int64(Some(args.network(0).minus(args.network(1))?)))
    }),
    Row::new("inet\u{1}-", "The address so many before.", AND_NUMBER, Gives::Inet, |args| {
        let (address, count) = (args.network(0), args.integer(1));
        // The least integer has no opposite; its half has, twice.
        Ok(inet(match count.checked_neg() {
            Some(back) => address.plus(back)?,
            None => address.plus(-(count / 2))?.plus(-(count / 2))?,
        }))
    }),
];

impl Arguments<'_> {
    /// An `inet` or `cidr` that is not NULL.
    fn network(&self, at: usize) -> Network {
        match &self.values[at] {
            ScalarValue::FixedSizeBinary(_, Some(bytes)) => Network::decode(bytes),
            other => unreachable!("{other} is no address"),
        }
    }
}

fn inet(network: Network) -> ScalarValue {
    address_scalar(&network.encode(false), &SqlType::Inet.arrow())
}

fn cidr(network: Network) -> ScalarValue {
    address_scalar(&network.encode(true), &SqlType::Cidr.arrow())
}

fn truth(is: bool) -> ScalarValue {
    ScalarValue::Boolean(Some(is))
}

fn number(number: i32) -> ScalarValue {
    ScalarValue::Int32(Some(number))
}

fn written(write: impl FnOnce(&mut String)) -> ScalarValue {
    let mut out = String::new();
    write(&mut out);
    text(out)
}
