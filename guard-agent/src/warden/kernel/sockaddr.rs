//! The socket address a caller gave, from the bytes that were read of it.
#![forbid(unsafe_code)]

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// What the bytes mean.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Address {
    Internet(SocketAddr),
    /// As given, without the zero that ends a path; it starts with a zero when abstract.
    Unix(Vec<u8>),
    /// Another family, or too short.
    Other,
}

pub(super) fn parse(bytes: &[u8]) -> Address {
    let Some((family, rest)) = bytes.split_first_chunk::<2>() else {
        return Address::Other;
    };
    match i32::from(u16::from_ne_bytes(*family)) {
        libc::AF_INET => v4(rest).map_or(Address::Other, Address::Internet),
        libc::AF_INET6 => v6(rest).map_or(Address::Other, Address::Internet),
        libc::AF_UNIX => Address::Unix(unix_name(rest).to_vec()),
        _ => Address::Other,
    }
}

fn v4(rest: &[u8]) -> Option<SocketAddr> {
    let (port, rest) = rest.split_first_chunk::<2>()?;
    let (address, _) = rest.split_first_chunk::<4>()?;
    Some(SocketAddrV4::new(Ipv4Addr::from(*address), u16::from_be_bytes(*port)).into())
}

fn v6(rest: &[u8]) -> Option<SocketAddr> {
    let (port, rest) = rest.split_first_chunk::<2>()?;
    let (_flow, rest) = rest.split_first_chunk::<4>()?;
    let (address, _) = rest.split_first_chunk::<16>()?;
    Some(SocketAddrV6::new(Ipv6Addr::from(*address), u16::from_be_bytes(*port), 0, 0).into())
}

/// A unix socket's name: abstract ones keep every byte, others end at a zero.
pub(super) fn unix_name(given: &[u8]) -> &[u8] {
    match given.first() {
        Some(0) => given,
        _ => given.split(|byte| *byte == 0).next().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_told_apart_and_short_ones_are_none() {
        let mut v4 = [2, 0, 1, 187, 192, 0, 2, 1, 9, 9].to_vec();
        assert_eq!(parse(&v4), Address::Internet("192.0.2.1:443".parse().unwrap()));
        v4.truncate(7);
        assert_eq!(parse(&v4), Address::Other);
        let mut v6 = vec![10, 0, 0, 53, 0, 0, 0, 0];
        v6.extend("2001:db8::1".parse::<Ipv6Addr>().unwrap().octets());
        assert_eq!(parse(&v6), Address::Internet("[2001:db8::1]:53".parse().unwrap()));
        v6.pop();
        assert_eq!(parse(&v6), Address::Other);
        assert_eq!(parse(b"\x01\0/run/a\0zz"), Address::Unix(b"/run/a".to_vec()));
        assert_eq!(parse(b"\x01\0\0a\0b"), Address::Unix(b"\0a\0b".to_vec()));
        assert_eq!(parse(b"\x10\0abc"), Address::Other);
        assert_eq!(parse(b"\x01"), Address::Other);
    }
}
