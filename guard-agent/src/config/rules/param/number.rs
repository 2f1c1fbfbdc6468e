//! Numbers of a policy, compared without rounding.

use std::{cmp::Ordering, fmt};

/// As TOML has them. Never infinite, never not a number.
#[derive(Debug, Clone, Copy)]
pub enum Number {
    Whole(i64),
    Real(f64),
}

impl Number {
    /// By value: 1 and 1.0 are equal, and 9007199254740993 is not 9007199254740992.0.
    pub fn order(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Whole(one), Self::Whole(two)) => one.cmp(&two),
            (Self::Real(one), Self::Real(two)) => one.partial_cmp(&two).unwrap_or(Ordering::Equal),
            (Self::Whole(one), Self::Real(two)) => whole_to_real(one, two),
            (Self::Real(one), Self::Whole(two)) => whole_to_real(two, one).reverse(),
        }
    }
}

fn whole_to_real(whole: i64, real: f64) -> Ordering {
    // 2^63: from here on up (and below its negative) no i64 is.
    const EDGE: f64 = 9_223_372_036_854_775_808.0;
    if real >= EDGE {
        Ordering::Less
    } else if real < -EDGE {
        Ordering::Greater
    } else {
        #[allow(
            clippy::cast_possible_truncation,
            reason = "it has no fraction and lies within i64"
        )]
        let floor = real.floor() as i64;
        whole.cmp(&floor).then(if real.fract() == 0.0 {
            Ordering::Equal
        } else {
            Ordering::Less
        })
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.order(*other) == Ordering::Equal
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(number) => number.fmt(f),
            Self::Real(number) => number.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn no_rounding() {
        let exact = Number::Whole(9_007_199_254_740_993);
        assert_eq!(
            exact.order(Number::Real(9_007_199_254_740_992.0)),
            Ordering::Greater
        );
        assert_eq!(Number::Whole(1).order(Number::Real(1.0)), Ordering::Equal);
        assert_eq!(Number::Whole(1).order(Number::Real(1.5)), Ordering::Less);
        assert_eq!(Number::Whole(-1).order(Number::Real(-1.5)), Ordering::Greater);
        assert_eq!(Number::Whole(i64::MAX).order(Number::Real(1e300)), Ordering::Less);
        assert_eq!(
            Number::Whole(i64::MIN).order(Number::Real(-1e300)),
            Ordering::Greater
        );
        assert_eq!(
            Number::Whole(i64::MIN).order(Number::Real(-9_223_372_036_854_775_808.0)),
            Ordering::Equal
        );
    }

    proptest! {
        #[test]
        fn as_small_numbers_are(one in -(1_i64 << 52)..1 << 52, two in -(1_i64 << 52)..1 << 52, half in any::<bool>()) {
            // Twice each fits a f64 exactly, and so does each half.
            let (one, two) = (one / 4, two / 4);
            #[allow(clippy::cast_precision_loss, reason = "small enough to be exact")]
            let real = two as f64 + if half { 0.5 } else { 0.0 };
            let wanted = (one * 2).cmp(&(two * 2 + i64::from(half)));
            prop_assert_eq!(Number::Whole(one).order(Number::Real(real)), wanted);
            prop_assert_eq!(Number::Real(real).order(Number::Whole(one)), wanted.reverse());
        }
    }
}
