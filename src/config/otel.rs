//! The standard `OTEL_` variables, as far as the program answers to them.
//!
//! Those of the traces (`OTEL_EXPORTER_OTLP_TRACES_*`) win over the general ones. A value that
//! cannot be read is a mistake of the configuration, not a warning that nobody sees. It must never
//! repeat the value of a header.

use std::{collections::BTreeMap, time::Duration};

use super::{
    reader::Reader,
    report::Place,
    scalar::{self, Read},
    tree::{Node, Style, Value},
};
use crate::core::{Sensitive, fact::SpanContent};

/// What an endpoint must be.
pub(super) const ADDRESS: &str = "must be an address such as http://127.0.0.1:4318";

/// The variables, and where their mistakes are noted.
pub(super) struct Otel<'a> {
    pub(super) env: &'a BTreeMap<String, String>,
    pub(super) reader: &'a Reader,
}

impl Otel<'_> {
    /// A variable that is set, and not empty.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.env.get(name).filter(|value| !value.trim().is_empty()).cloned()
    }

    /// An exporter's setting: the traces' own variable, else the general one.
    pub(super) fn either<T>(&self, setting: &str, key: &str, read: impl FnOnce(&Node) -> Read<T>) -> Option<T> {
        let (name, value) = self.first(setting)?;
        self.read(&name, value, key, read)
    }

    /// The endpoint, and whether it is used as it stands: the general one is a base.
    pub(super) fn endpoint(&self, key: &str) -> Option<(String, bool)> {
        let (name, value) = self.first("ENDPOINT")?;
        let whole = name.contains("_TRACES_");
        let read = |node: &Node| address(scalar::scalar(node, ADDRESS)?.0);
        self.read(&name, value, key, read).map(|base| (base, whole))
    }

    /// The headers: `name=value,name=value`, values percent-encoded.
    pub(super) fn headers(&self, key: &str) -> BTreeMap<String, Sensitive<String>> {
        let Some((name, value)) = self.first("HEADERS") else { return BTreeMap::new() };
        let headers = pairs(&value).and_then(|pairs| {
            pairs.iter().try_for_each(|(name, _)| header_name(name))?;
            Ok(pairs)
        });
        let pairs = headers.map_err(|wrong| self.reader.wrong(Place::Env(name), key, wrong)).unwrap_or_default();
        pairs.into_iter().map(|(name, value)| (name, Sensitive::new(value))).collect()
    }

    /// `OTEL_RESOURCE_ATTRIBUTES`, in the same form.
    pub(super) fn resource_attributes(&self, key: &str) -> BTreeMap<String, String> {
        let name = "OTEL_RESOURCE_ATTRIBUTES";
        let Some(value) = self.text(name) else { return BTreeMap::new() };
        let pairs = pairs(&value).map_err(|wrong| self.reader.wrong(Place::Env(name.to_owned()), key, wrong));
        pairs.unwrap_or_default().into_iter().collect()
    }

    /// The head decision that `OTEL_TRACES_SAMPLER` asks for.
    pub(super) fn sample_ratio(&self, key: &str) -> Option<f64> {
        let name = "OTEL_TRACES_SAMPLER";
        let kinds = [
            ("always_on", Some(1.0)),
            ("always_off", Some(0.0)),
            ("traceidratio", None),
            ("parentbased_always_on", Some(1.0)),
            ("parentbased_always_off", Some(0.0)),
            ("parentbased_traceidratio", None),
        ];
        let fixed = self.read(name, self.text(name)?, key, scalar::word(&kinds))?;
        let argument = "OTEL_TRACES_SAMPLER_ARG";
        fixed.or_else(|| self.read(argument, self.text(argument)?, key, scalar::decimal(0.0, 1.0, false)))
    }

    /// Whether `OTEL_SDK_DISABLED` is true, or `OTEL_TRACES_EXPORTER` is none.
    pub(super) fn disabled(&self, key: &str) -> bool {
        let is = |name: &str, words: &[(&str, bool)]| {
            let value = self.text(name)?;
            self.read(name, value.to_ascii_lowercase(), key, scalar::word(words))
        };
        let disabled = is("OTEL_SDK_DISABLED", &[("true", true), ("false", false)]).unwrap_or(false);
        is("OTEL_TRACES_EXPORTER", &[("otlp", false), ("none", true)]).unwrap_or(false) || disabled
    }

    /// What `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` asks for: the words of its first
    /// form and of its second. Events of content there are none, so those that ask for events alone
    /// get nothing.
    pub(super) fn span_content(&self, key: &str) -> Option<SpanContent> {
        let name = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";
        let words = [
            ("span_only", SpanContent::Full),
            ("span_and_event", SpanContent::Full),
            ("true", SpanContent::Full),
            ("event_only", SpanContent::Off),
            ("no_content", SpanContent::Off),
            ("false", SpanContent::Off),
        ];
        self.read(name, self.text(name)?.to_ascii_lowercase(), key, scalar::word(&words))
    }

    /// `OTEL_BSP_MAX_QUEUE_SIZE`.
    pub(super) fn queue_size(&self, key: &str) -> Option<usize> {
        let name = "OTEL_BSP_MAX_QUEUE_SIZE";
        self.read(name, self.text(name)?, key, scalar::whole(1..=1_000_000))
    }

    /// `OTEL_BSP_MAX_EXPORT_BATCH_SIZE`.
    pub(super) fn batch_size(&self, key: &str) -> Option<usize> {
        let name = "OTEL_BSP_MAX_EXPORT_BATCH_SIZE";
        self.read(name, self.text(name)?, key, scalar::whole(1..=100_000))
    }

    fn first(&self, setting: &str) -> Option<(String, String)> {
        ["OTEL_EXPORTER_OTLP_TRACES_", "OTEL_EXPORTER_OTLP_"].iter().find_map(|prefix| {
            let name = format!("{prefix}{setting}");
            self.text(&name).map(|value| (name, value))
        })
    }

    fn read<T>(&self, name: &str, text: String, key: &str, read: impl FnOnce(&Node) -> Read<T>) -> Option<T> {
        let place = Place::Env(name.to_owned());
        let node = Node { place: place.clone(), value: Value::Scalar { text, style: Style::Loose } };
        read(&node).map_err(|wrong| self.reader.wrong(place, key, wrong)).ok()
    }
}

/// The timeout's variable is in milliseconds, as the standard has it.
pub(super) fn millis(node: &Node) -> Read<Duration> {
    scalar::whole::<u64>(1..=600_000)(node)
        .map(Duration::from_millis)
        .map_err(|_| format!("must be milliseconds from 1 to 600000, not {}", scalar::show(node)))
}

/// An http or https address with a host, and with no credential in it: it is printed.
pub(super) fn address(text: &str) -> Read<String> {
    let rest = text.strip_prefix("http://").or(text.strip_prefix("https://"));
    let rest = rest.ok_or_else(|| format!("{ADDRESS}; it begins with http:// or https://"))?;
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if host.contains('@') {
        return Err(format!("{ADDRESS}, with no name or password in it; use headers"));
    }
    if host.is_empty()
        || host.starts_with(':')
        || text.contains(|c: char| c.is_whitespace() || c.is_control() || c == '?')
    {
        return Err(format!("{ADDRESS}, with a host and no spaces or ?"));
    }
    Ok(text.to_owned())
}

pub(super) fn header_name(name: &str) -> Read<()> {
    let fits = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    if fits && !name.is_empty() {
        Ok(())
    } else {
        Err("a header's name must be letters, digits, -, _ and dots".to_owned())
    }
}

fn pairs(text: &str) -> Read<Vec<(String, String)>> {
    let wrong = "must be name=value pairs between commas, values percent-encoded";
    text.split(',')
        .filter(|pair| !pair.trim().is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').ok_or(wrong)?;
            Ok((name.trim().to_owned(), unescape(value.trim()).ok_or(wrong)?))
        })
        .collect()
}

/// Undoes percent-encoding; none where it is broken.
fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'%' {
            let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
            let (high, low) = (digit(rest.next())?, digit(rest.next())?);
            u8::try_from(high * 16 + low).ok()?
        } else {
            byte
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_split_and_unescaped() {
        let read = |text| pairs(text).ok();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(read("a=1, b=x%20y%3D,c=d=e"), Some(vec![pair("a", "1"), pair("b", "x y="), pair("c", "d=e")]));
        assert_eq!(read(""), Some(vec![]));
        for broken in ["a", "a=%2", "a=%zz", "a=%ff"] {
            assert_eq!(read(broken), None, "{broken}");
        }
    }

    #[test]
    fn an_address_has_a_scheme_and_a_host_and_no_password() {
        for right in ["http://localhost:4318", "https://collector.example/otlp", "http://[::1]:4317"] {
            assert_eq!(address(right), Ok(right.to_owned()));
        }
        for wrong in
            ["localhost:4317", "ftp://x", "http://", "http://:80", "https://me:hunter2@x", "http://a b", "http://x?k=v"]
        {
            assert!(address(wrong).is_err_and(|text| !text.contains("hunter2")), "{wrong}");
        }
    }
}
