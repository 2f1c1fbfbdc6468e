//! The RFC 8785 form of a JSON value.
//!
//! `serde_json_canonicalizer` is the judge of it in the tests and does the fractions; doing the rest here is
//! several times as fast, and both a record's append and its verification wait for it.

use std::io;

use serde_json::{Map, Value};

pub(super) fn to_vec(value: &Value) -> io::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(1024);
    write(value, &mut out)?;
    Ok(out)
}

pub(super) fn object_to_vec(members: &Map<String, Value>) -> io::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(1024);
    write_object(members, &mut out)?;
    Ok(out)
}

fn write(value: &Value, out: &mut Vec<u8>) -> io::Result<()> {
    match value {
        Value::Object(members) => write_object(members, out),
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write(item, out)?;
            }
            out.push(b']');
            Ok(())
        }
        // Only in this range are the digits of a whole number those of the double.
        Value::Number(number)
            if number
                .as_i64()
                .is_some_and(|value| value.unsigned_abs() < 1 << 53) =>
        {
            Ok(serde_json::to_writer(out, number)?)
        }
        Value::Number(number) => Ok(serde_json_canonicalizer::to_writer(number, out)?),
        // serde_json escapes what the RFC says and nothing else.
        Value::String(text) => Ok(serde_json::to_writer(out, text)?),
        Value::Null | Value::Bool(_) => Ok(serde_json::to_writer(out, value)?),
    }
}

/// Members in the order of their names' UTF-16 units, whatever order the map has.
fn write_object(members: &Map<String, Value>, out: &mut Vec<u8>) -> io::Result<()> {
    let mut members: Vec<_> = members.iter().collect();
    members.sort_by(|(one, _), (other, _)| {
        if one.is_ascii() && other.is_ascii() {
            one.cmp(other)
        } else {
            one.encode_utf16().cmp(other.encode_utf16())
        }
    });
    out.push(b'{');
    for (index, (name, value)) in members.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        serde_json::to_writer(&mut *out, name)?;
        out.push(b':');
        write(value, out)?;
    }
    out.push(b'}');
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::{collection, prelude::*};

    use super::*;

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-9_007_199_254_740_994i64..-9_007_199_254_740_988).prop_map(Value::from),
            (9_007_199_254_740_988i64..9_007_199_254_740_994).prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            collection::vec(0u8..0x80, 0..10).prop_map(|ascii| String::from_utf8(ascii).unwrap().into()),
        ];
        let name = prop_oneof![any::<String>(), "[a-c\u{e000}\u{ffff}\u{10000}\u{10ffff}]{0,3}"];
        leaf.prop_recursive(4, 40, 8, move |inner| {
            prop_oneof![
                collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                collection::vec((name.clone(), inner), 0..6)
                    .prop_map(|members| members.into_iter().collect::<Map<_, _>>().into()),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]
        #[test]
        fn it_is_what_the_reference_says(value in json()) {
            let ours = String::from_utf8(to_vec(&value).unwrap()).unwrap();
            prop_assert_eq!(ours, serde_json_canonicalizer::to_string(&value).unwrap());
        }
    }

    #[test]
    fn names_are_ordered_by_utf16() {
        let value = serde_json::json!({"\u{e000}": 1, "\u{10000}": 2, "b": 3, "B": 4, "": 5});
        let expected = "{\"\":5,\"B\":4,\"b\":3,\"\u{10000}\":2,\"\u{e000}\":1}";
        assert_eq!(String::from_utf8(to_vec(&value).unwrap()).unwrap(), expected);
    }
}
