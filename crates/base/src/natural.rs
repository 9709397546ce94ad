//! Natural numbers of any size, as far as exact decimal conversion needs them.

/// The greatest power of five in a limb.
const FIVE_POWER: u32 = 27;
/// Five to that power.
const FIVE: u64 = 5_u64.pow(FIVE_POWER);
/// The greatest power of ten in a limb, and its exponent.
const TEN: u64 = 10_u64.pow(TEN_POWER as u32);
const TEN_POWER: usize = 19;

/// A natural number: 64-bit limbs, lowest first, the highest not zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Natural {
    limbs: Vec<u64>,
}

impl From<u128> for Natural {
    fn from(value: u128) -> Natural {
        let mut natural = Natural { limbs: vec![value as u64, (value >> 64) as u64] };
        natural.trim();
        natural
    }
}

impl Natural {
    pub fn is_zero(&self) -> bool {
        self.limbs.is_empty()
    }

    /// Makes it `self x factor + summand`.
    pub fn multiply_add(&mut self, factor: u64, summand: u64) {
        let mut carry = summand;
        for limb in &mut self.limbs {
            let product = u128::from(*limb) * u128::from(factor) + u128::from(carry);
            *limb = product as u64;
            carry = (product >> 64) as u64;
        }
        if carry != 0 {
            self.limbs.push(carry);
        }
    }

    /// Divides by `divisor` and returns the remainder.
    pub fn divide(&mut self, divisor: u64) -> u64 {
        let mut remainder = 0;
        for limb in self.limbs.iter_mut().rev() {
            let value = u128::from(remainder) << 64 | u128::from(*limb);
            *limb = (value / u128::from(divisor)) as u64;
            remainder = (value % u128::from(divisor)) as u64;
        }
        self.trim();
        remainder
    }

    pub fn multiply_by_power_of_five(&mut self, exponent: u32) {
        (0..exponent / FIVE_POWER).for_each(|_| self.multiply_add(FIVE, 0));
        self.multiply_add(5_u64.pow(exponent % FIVE_POWER), 0);
    }

    /// Divides by five to the `exponent` and returns whether a remainder was lost.
    pub fn divide_by_power_of_five(&mut self, exponent: u32) -> bool {
        let mut lost = false;
        for _ in 0..exponent / FIVE_POWER {
            lost |= self.divide(FIVE) != 0;
        }
        self.divide(5_u64.pow(exponent % FIVE_POWER)) != 0 || lost
    }

    pub fn shift_left(&mut self, bits: u32) {
        if self.is_zero() {
            return;
        }
        self.multiply_add(1 << (bits % 64), 0);
        let zeros = std::iter::repeat_n(0, (bits / 64) as usize);
        self.limbs.splice(0..0, zeros);
    }

    /// Returns the highest 65 to 128 bits, how many bits are below them, and whether any of those
    /// is set.
    pub fn top_bits(&self) -> (u128, u32, bool) {
        let limb = |index: usize| u128::from(self.limbs[index]);
        match self.limbs.len() {
            0 => (0, 0, false),
            1 => (limb(0), 0, false),
            count => {
                let bits = limb(count - 1) << 64 | limb(count - 2);
                let lost = self.limbs[..count - 2].iter().any(|&limb| limb != 0);
                (bits, (count as u32 - 2) * 64, lost)
            }
        }
    }

    pub fn to_decimal(&self) -> String {
        let mut rest = self.clone();
        let mut groups = Vec::new();
        while !rest.is_zero() {
            groups.push(rest.divide(TEN));
        }
        let Some(first) = groups.pop() else { return "0".into() };
        let mut text = first.to_string();
        for group in groups.iter().rev() {
            text.push_str(&format!("{group:0width$}", width = TEN_POWER));
        }
        text
    }

    fn trim(&mut self) {
        while self.limbs.last() == Some(&0) {
            self.limbs.pop();
        }
    }
}
