//! `params` as they are written.

use std::fmt;

use serde::{Deserialize, Deserializer, de};
use toml::Spanned;

use super::{Kind, Number, Scalar};
use crate::config::rights::Rights;

/// What one parameter may be.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Param {
    pub kind: Option<Kind>,
    pub roots: Option<Rights>,
    pub pattern: Option<Spanned<String>>,
    pub one_of: Option<Spanned<Vec<Scalar>>>,
    pub min_len: Option<u32>,
    pub max_len: Option<u32>,
    pub min: Option<Number>,
    pub max: Option<Number>,
    pub max_items: Option<u32>,
    pub domains: Option<Spanned<Vec<String>>>,
}

struct AnyScalar;

impl de::Visitor<'_> for AnyScalar {
    type Value = Scalar;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a number, `true` or `false`")
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar::Text(text.to_owned()))
    }
    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Scalar, E> {
        Ok(Scalar::Bool(value))
    }
    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Scalar, E> {
        Ok(Scalar::Number(Number::Whole(value)))
    }
    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Scalar, E> {
        if value.is_finite() {
            Ok(Scalar::Number(Number::Real(value)))
        } else {
            Err(E::custom(format_args!("`{value}` is no number of JSON's")))
        }
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyScalar)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Scalar::deserialize(deserializer)? {
            Scalar::Number(number) => Ok(number),
            Scalar::Text(_) => Err(de::Error::custom("a text stands where a number is wanted")),
            Scalar::Bool(_) => Err(de::Error::custom(
                "`true` or `false` stands where a number is wanted",
            )),
        }
    }
}
