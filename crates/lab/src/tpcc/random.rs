//! TPC-C's random numbers and texts (clauses 2.1.6 and 4.3).
//!
//! Words: *NURand* is the benchmark's non-uniform choice, a bitwise or of two uniform ones.

use halcyon_base::rng::Rng;

/// How large the tables are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Warehouses.
    pub warehouses: i32,
    /// Customers of a district, and orders there at the start: 3,000 by the rules.
    pub customers: i32,
    /// Items: 100,000 by the rules.
    pub items: i32,
}

/// Districts of a warehouse.
pub const DISTRICTS: i32 = 10;

impl Scale {
    /// The benchmark's own sizes.
    pub fn full(warehouses: i32) -> Self {
        Scale { warehouses, customers: 3_000, items: 100_000 }
    }

    /// Small enough for a test.
    pub fn tiny(warehouses: i32) -> Self {
        Scale { warehouses, customers: 30, items: 100 }
    }

    /// How many of a district's first orders are delivered at the start: 2,100 of 3,000.
    pub fn delivered(self) -> i32 {
        self.customers * 7 / 10
    }

    /// Last names in use: a thousand, fewer if there are fewer customers.
    fn names(self) -> i32 {
        self.customers.min(1_000)
    }
}

/// The constants C of NURand (clause 2.1.6.1): one each for customers, items, and names at load
/// and at run time, whose distance is within 65 and 119 but not 96 or 112.
#[derive(Clone, Copy, Debug)]
struct Constants {
    customer: i32,
    item: i32,
    name_load: i32,
    name_run: i32,
}

impl Constants {
    fn drawn(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x7C1C);
        let name_load = rng.below(137) as i32;
        let distances = (65..=119).filter(|distance| ![96, 112].contains(distance));
        let distances: Vec<i32> = distances.collect();
        Constants {
            customer: rng.below(1_024) as i32,
            item: rng.below(8_192) as i32,
            name_load,
            name_run: name_load + rng.pick(&distances),
        }
    }
}

/// A stream of TPC-C's random choices.
#[derive(Clone, Debug)]
pub struct Random {
    rng: Rng,
    constants: Constants,
    /// Sizes that the choices keep to.
    pub scale: Scale,
}

impl Random {
    /// Stream number `stream` of `seed`; all streams of a seed share NURand's constants.
    pub fn new(scale: Scale, seed: u64, stream: u64) -> Self {
        let rng = Rng::new(seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Random { rng, constants: Constants::drawn(seed), scale }
    }

    /// Uniform in `low..=high`.
    pub fn number(&mut self, low: i32, high: i32) -> i32 {
        self.rng.range(i64::from(low)..i64::from(high) + 1) as i32
    }

    /// True in `percent` of a hundred cases.
    pub fn percent(&mut self, percent: u32) -> bool {
        self.rng.chance(percent, 100)
    }

    /// NURand(A, x, y) with constant C.
    fn non_uniform(&mut self, a: i32, c: i32, low: i32, high: i32) -> i32 {
        let mixed = self.number(0, a) | self.number(low, high);
        (mixed + c) % (high - low + 1) + low
    }

    /// A customer's number, NURand(1023).
    pub fn customer(&mut self) -> i32 {
        self.non_uniform(1_023, self.constants.customer, 1, self.scale.customers)
    }

    /// An item's number, NURand(8191).
    pub fn item(&mut self) -> i32 {
        self.non_uniform(8_191, self.constants.item, 1, self.scale.items)
    }

    /// Number of a last name while transactions run, NURand(255).
    pub fn name(&mut self) -> u16 {
        self.non_uniform(255, self.constants.name_run, 0, self.scale.names() - 1) as u16
    }

    /// Number of customer `customer`'s last name at load: each once, then NURand(255).
    pub fn name_at_load(&mut self, customer: i32) -> u16 {
        match customer {
            ..=1_000 => (customer - 1) as u16,
            _ => self.non_uniform(255, self.constants.name_load, 0, self.scale.names() - 1) as u16,
        }
    }

    /// Letters and digits, `low..=high` of them.
    pub fn text(&mut self, low: i32, high: i32) -> String {
        const LETTERS: &[u8; 62] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
        let length = self.number(low, high);
        (0..length).map(|_| char::from(*self.rng.pick(LETTERS))).collect()
    }

    /// `length` digits.
    pub fn digits(&mut self, length: usize) -> String {
        (0..length).map(|_| char::from(b'0' + self.rng.below(10) as u8)).collect()
    }

    /// A ZIP code: four random digits and 11111.
    pub fn zip(&mut self) -> String {
        self.digits(4) + "11111"
    }

    /// 26 to 50 characters; a tenth of such texts holds ORIGINAL.
    pub fn data(&mut self) -> String {
        let mut text = self.text(26, 50);
        if self.percent(10) {
            let at = self.number(0, text.len() as i32 - 8) as usize;
            text.replace_range(at..at + 8, "ORIGINAL");
        }
        text
    }

    /// The numbers `1..=count` in random order.
    pub fn permutation(&mut self, count: i32) -> Vec<i32> {
        let mut numbers: Vec<i32> = (1..=count).collect();
        for at in (1..numbers.len()).rev() {
            numbers.swap(at, self.rng.below(at as u64 + 1) as usize);
        }
        numbers
    }

    /// Uniform in `0..bound`.
    pub fn below(&mut self, bound: u32) -> u32 {
        self.rng.below(u64::from(bound)) as u32
    }
}

/// The last name of a number of `0..1000`: a syllable per digit (clause 4.3.2.3).
pub fn last_name(number: u16) -> String {
    const SYLLABLES: [&str; 10] =
        ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
    let number = usize::from(number);
    let syllable = |divisor: usize| SYLLABLES[number / divisor % 10];
    [syllable(100), syllable(10), syllable(1)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_names_are_those_of_the_specification() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(40), "BARPRESBAR");
        assert_eq!(last_name(999), "EINGEINGEING");
    }

    #[test]
    fn choices_keep_to_their_bounds_and_are_skewed() {
        let mut random = Random::new(Scale::full(2), 3, 0);
        let mut counts = vec![0_u32; 100_001];
        for _ in 0..200_000 {
            let item = random.item();
            counts[item as usize] += 1;
            assert!((1..=3_000).contains(&random.customer()));
            assert!(random.name() < 1_000);
        }
        assert_eq!(counts[0], 0);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let top: u32 = counts[..10_000].iter().sum();
        assert!(top > 60_000, "a tenth of the items makes {top} of 200,000 choices");
    }

    #[test]
    fn the_names_at_run_time_are_as_far_from_those_at_load_as_the_rules_ask() {
        for seed in 0..200 {
            let constants = Constants::drawn(seed);
            let distance = constants.name_run - constants.name_load;
            assert!((65..=119).contains(&distance) && distance != 96 && distance != 112);
            assert!(constants.name_run < 256);
        }
    }

    #[test]
    fn a_tenth_of_data_is_original() {
        let mut random = Random::new(Scale::full(1), 9, 1);
        let original = (0..10_000).filter(|_| random.data().contains("ORIGINAL")).count();
        assert!((800..1_200).contains(&original), "{original} of 10,000");
    }
}
