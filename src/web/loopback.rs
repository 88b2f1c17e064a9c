//! Names that lead to this machine alone.
//!
//! One rule for all who ask: whom a service without a login answers, and where a credential may go
//! without https. It must never ask a resolver: what a name of others leads to, others decide.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A host that leads to this machine alone, whatever the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loopback {
    /// `localhost`.
    Name,
    /// An address, as `127.0.0.1` or `[::1]`.
    Address(IpAddr),
}

impl Loopback {
    /// What the host of a web address is, written as it stands there: IPv6 in brackets. Nothing
    /// where it leads elsewhere.
    pub fn of(host: &str) -> Option<Self> {
        if host.eq_ignore_ascii_case("localhost") {
            return Some(Self::Name);
        }
        let address = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(inner) => IpAddr::V6(inner.parse::<Ipv6Addr>().ok()?),
            None => IpAddr::V4(host.parse::<Ipv4Addr>().ok()?),
        };
        address.is_loopback().then_some(Self::Address(address))
    }
}

/// Whether such a web address is reached on this machine, without https: neither a proxy nor
/// certificates belong on the way.
pub fn is_near(scheme: &str, host: &str) -> bool {
    scheme == "http" && Loopback::of(host).is_some()
}

/// Whether others could read on the way what is sent to such a web address.
pub fn is_in_the_clear(scheme: &str, host: &str) -> bool {
    scheme != "https" && Loopback::of(host).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_loopback() {
        for near in ["localhost", "LocalHost", "127.0.0.1", "127.1.2.3", "[::1]", "[0:0:0:0:0:0:0:1]"] {
            assert!(Loopback::of(near).is_some(), "{near}");
        }
        for far in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "127.evil.example",
            "0.0.0.0",
            "10.0.0.1",
            "[::2]",
            "[::ffff:10.0.0.1]",
            "2130706433",
            "::1",
            "[::1",
        ] {
            assert_eq!(Loopback::of(far), None, "{far}");
        }
        assert_ne!(Loopback::of("localhost"), Loopback::of("127.0.0.1"));
    }

    #[test]
    fn only_https_and_this_machine_are_out_of_sight() {
        assert!(is_in_the_clear("http", "agents.example.com"));
        assert!(!is_in_the_clear("https", "agents.example.com"));
        assert!(!is_in_the_clear("http", "127.0.0.1"));
    }
}
