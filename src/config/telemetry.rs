//! `telemetry`: where traces, events and diagnostics go.
//!
//! A value of the file wins; what the file leaves out is filled from the standard `OTEL_`
//! variables. It must never know how anything is exported.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use super::{
    otel::{self, Otel},
    reader::Section,
    scalar::{self, Read},
    secret::Vault,
    tree::Node,
};
use crate::core::Sensitive;

/// Where the signals go.
#[derive(Clone, Debug, PartialEq)]
pub struct Telemetry {
    /// The export of traces; none where no endpoint is set, or it is switched off.
    pub otlp: Option<Otlp>,
    /// `service.name`.
    pub service_name: String,
    /// What else describes this service.
    pub resource_attributes: BTreeMap<String, String>,
    /// Share of sessions whose traces are exported, 0 to 1.
    pub sample_ratio: f64,
    /// When it is decided which traces are exported.
    pub sampling: Sampling,
    /// Under tail sampling, a session active for so long is exported whatever the share.
    pub slow_session: Duration,
    /// Where the JSON events go; none leaves it to the command: `serve` writes them to the standard
    /// output, `run` nowhere.
    pub events: Option<Events>,
    /// Directives of the diagnostics' filter: `info`, `warn,glassbox=debug`.
    pub log: String,
}

/// The export of traces over OTLP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Otlp {
    /// The full address; for HTTP it ends with the path of the traces.
    pub endpoint: String,
    /// How it is spoken to.
    pub protocol: Protocol,
    /// Headers of each request, names in small letters.
    pub headers: BTreeMap<String, Sensitive<String>>,
    /// Time of one export.
    pub timeout: Duration,
    /// Whether bodies are compressed with gzip.
    pub gzip: bool,
    /// Spans that wait at the most; the rest is dropped and counted.
    pub queue_size: usize,
    /// Spans of one request at the most.
    pub batch_size: usize,
}

/// When it is decided which traces are exported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sampling {
    /// When the session begins, by its share.
    #[default]
    Head,
    /// When it ends: all that went wrong or were slow, and a share of the rest.
    Tail,
}

impl Sampling {
    /// The word in configuration.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::Tail => "tail",
        }
    }
}

/// The two ways that OTLP is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// gRPC.
    Grpc,
    /// Protobuf over HTTP.
    HttpProtobuf,
}

/// Where the JSON events go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Events {
    /// The standard output.
    Stdout,
    /// Nowhere.
    Off,
    /// A file, appended to.
    File(PathBuf),
}

impl Protocol {
    /// Both, with their words in configuration.
    pub const ALL: [(&'static str, Self); 2] = [("grpc", Self::Grpc), ("http/protobuf", Self::HttpProtobuf)];

    /// The word in configuration.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Grpc => "grpc",
            Self::HttpProtobuf => "http/protobuf",
        }
    }
}

pub(super) fn read(section: &Section<'_>, otel: &Otel<'_>, vault: Vault<'_>) -> Telemetry {
    let own = section.map("resource_attributes", attribute_name, scalar::text);
    let mut resource_attributes = otel.resource_attributes("telemetry.resource_attributes");
    let service_name = section.get("service_name", scalar::text);
    let service_name = service_name.or_else(|| otel.text("OTEL_SERVICE_NAME"));
    let service_name = service_name.or_else(|| resource_attributes.remove("service.name"));
    resource_attributes.remove("service.name");
    resource_attributes.extend(own);
    let ratio = section.get("sample_ratio", scalar::decimal(0.0, 1.0, false));
    Telemetry {
        otlp: read_otlp(&section.section("otlp"), otel, vault),
        service_name: service_name.unwrap_or_else(|| "glassbox".to_owned()),
        resource_attributes,
        sample_ratio: if section.has("sample_ratio") { ratio } else { otel.sample_ratio("telemetry.sample_ratio") }
            .unwrap_or(1.0),
        sampling: section
            .get("sampling", scalar::word(&[Sampling::Head, Sampling::Tail].map(|word| (word.label(), word))))
            .unwrap_or_default(),
        slow_session: section
            .get("slow_session", scalar::duration(Duration::from_millis(1), Duration::from_secs(86_400)))
            .unwrap_or(Duration::from_secs(30)),
        events: section.get("events", events),
        log: section.get("log", directives).unwrap_or_else(|| "info".to_owned()),
    }
}

fn read_otlp(section: &Section<'_>, otel: &Otel<'_>, vault: Vault<'_>) -> Option<Otlp> {
    let enabled = section.get("enabled", scalar::flag);
    let endpoint = section.get("endpoint", |node| {
        let (text, _) = scalar::scalar(node, otel::ADDRESS)?;
        otel::address(text)
    });
    let path = |key: &str| format!("telemetry.otlp.{key}");
    let protocol = section.get("protocol", scalar::word(&Protocol::ALL));
    let protocol = protocol.or_else(|| otel.either("PROTOCOL", &path("protocol"), scalar::word(&Protocol::ALL)));
    let gzip = section.get("compression", compression);
    let gzip = gzip.or_else(|| otel.either("COMPRESSION", &path("compression"), compression));
    let (shortest, longest) = (Duration::from_millis(1), Duration::from_secs(600));
    let timeout = section.get("timeout", scalar::duration(shortest, longest));
    let timeout = timeout.or_else(|| otel.either("TIMEOUT", &path("timeout"), otel::millis));
    let (queue_size, batch_size) = read_queue(section, otel);
    let headers = read_headers(section, otel, vault);
    let given = endpoint.is_some() || section.has("endpoint");
    let variable = if given { None } else { otel.endpoint(&path("endpoint")) };
    if !enabled.unwrap_or_else(|| !otel.disabled("telemetry.otlp.enabled")) {
        return None;
    }
    let (base, whole) = endpoint.map(|base| (base, false)).or(variable)?;
    let protocol = protocol.unwrap_or_else(|| usual_protocol(&base));
    let endpoint = if whole { base } else { with_path(base, protocol) };
    Some(Otlp {
        endpoint,
        protocol,
        headers,
        timeout: timeout.unwrap_or(Duration::from_secs(10)),
        gzip: gzip.unwrap_or(false),
        queue_size,
        batch_size,
    })
}

fn read_queue(section: &Section<'_>, otel: &Otel<'_>) -> (usize, usize) {
    let queue = section.get("queue_size", scalar::whole(1..=1_000_000));
    let queue_size = queue.or_else(|| otel.queue_size("telemetry.otlp.queue_size")).unwrap_or(2048);
    let batch = section.get("batch_size", scalar::whole(1..=100_000));
    if batch.is_some_and(|batch| batch > queue_size) {
        section.wrong("batch_size", format!("must be at most queue_size ({queue_size})"));
    }
    let batch = batch.or_else(|| otel.batch_size("telemetry.otlp.batch_size"));
    (queue_size, batch.unwrap_or(512).min(queue_size))
}

/// Headers of the file replace those of the environment as a whole: a mix would send one
/// service's credential to another.
fn read_headers(section: &Section<'_>, otel: &Otel<'_>, vault: Vault<'_>) -> BTreeMap<String, Sensitive<String>> {
    let own = section.map("headers", otel::header_name, |node| vault.any(node));
    let headers = if section.has("headers") { own } else { otel.headers("telemetry.otlp.headers") };
    headers.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect()
}

/// Port 4317 is gRPC's by convention; everything else is HTTP, the standard's own default.
fn usual_protocol(endpoint: &str) -> Protocol {
    if endpoint.trim_end_matches('/').ends_with(":4317") { Protocol::Grpc } else { Protocol::HttpProtobuf }
}

fn with_path(base: String, protocol: Protocol) -> String {
    if protocol == Protocol::Grpc || base.ends_with("/v1/traces") {
        return base;
    }
    format!("{}/v1/traces", base.trim_end_matches('/'))
}

fn compression(node: &Node) -> Read<bool> {
    scalar::word(&[("gzip", true), ("none", false)])(node)
}

fn events(node: &Node) -> Read<Events> {
    Ok(match scalar::text(node)?.as_str() {
        "stdout" => Events::Stdout,
        "none" => Events::Off,
        path => Events::File(PathBuf::from(path)),
    })
}

fn attribute_name(name: &str) -> Read<()> {
    if name == "service.name" {
        return Err("has a key of its own, telemetry.service_name".to_owned());
    }
    let fits = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
    if fits && !name.is_empty() { Ok(()) } else { Err("must be letters, digits, dots, _ and -".to_owned()) }
}

/// A filter takes any word for a target, so a slip in a level would silence everything: each
/// directive is held to `level` or `target=level`.
fn directives(node: &Node) -> Read<String> {
    let levels = ["off", "error", "warn", "info", "debug", "trace"];
    let right =
        format!("must be a level ({}), or levels of targets such as warn,glassbox=debug", scalar::either(&levels));
    let (text, _) = scalar::scalar(node, &right)?;
    for directive in text.split(',') {
        let (target, level) = directive.split_once('=').unwrap_or(("glassbox", directive));
        let fits =
            !target.is_empty() && target.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '-'));
        if !fits || !levels.contains(&level) {
            return Err(format!("{right}, not {}{}", scalar::show(node), scalar::did_you_mean(level, &levels)));
        }
    }
    Ok(text.to_owned())
}
