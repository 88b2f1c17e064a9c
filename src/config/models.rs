//! `models`: who thinks, where it is reached and with which credential.
//!
//! It must never know what is sent there, and never repeats a secret.

use std::{collections::BTreeMap, time::Duration};

use super::{
    agents::{Model, Provider, Script},
    inject, otel,
    reader::Section,
    scalar::{self, Read},
    secret::Vault,
    tree::Node,
};
use crate::{
    core::{Money, Prices, Sensitive, fact::CountedBy},
    model::{Access, Counting, StructuredOutput, anthropic, openai, openai::MaxTokensKey, react::ToolCalling},
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Scripted,
    Anthropic,
    OpenAi,
}

const KINDS: [(&str, Kind); 3] =
    [("scripted", Kind::Scripted), ("anthropic", Kind::Anthropic), ("openai", Kind::OpenAi)];

/// The keys that only some providers have, and their words.
const SPECIAL: [(&str, &[Kind], &str); 9] = [
    ("script", &[Kind::Scripted], "scripted"),
    ("base_url", &[Kind::Anthropic, Kind::OpenAi], "anthropic or openai"),
    ("api_key", &[Kind::Anthropic, Kind::OpenAi], "anthropic or openai"),
    ("headers", &[Kind::Anthropic, Kind::OpenAi], "anthropic or openai"),
    ("stream", &[Kind::Anthropic, Kind::OpenAi], "anthropic or openai"),
    ("max_tokens_key", &[Kind::OpenAi], "openai"),
    ("count_tokens", &[Kind::Anthropic, Kind::OpenAi], "anthropic or openai"),
    ("tool_calling", &[Kind::Anthropic, Kind::OpenAi], "anthropic or openai"),
    ("structured_output", &[Kind::Anthropic, Kind::OpenAi], "anthropic or openai"),
];

pub(super) fn read_models(root: &Section<'_>, vault: Vault<'_>) -> BTreeMap<String, Model> {
    let entries = root.named("models", model_name);
    entries.into_iter().map(|(name, section)| (name.clone(), read_model(&section, &name, vault))).collect()
}

fn model_name(name: &str) -> Read<()> {
    let fits = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
    if !fits || name.is_empty() || name.len() > 64 {
        return Err("must be 1 to 64 letters, digits, dots, _ and -".to_owned());
    }
    Ok(())
}

fn read_model(section: &Section<'_>, name: &str, vault: Vault<'_>) -> Model {
    let kind = section.need("provider", scalar::word(&KINDS));
    let provider = read_provider(section, kind, vault);
    let context_window = section.get("context_window", scalar::whole(1024..=100_000_000)).unwrap_or(200_000);
    let max_output_tokens = section.get("max_output_tokens", scalar::whole(1..=10_000_000));
    if max_output_tokens.is_some_and(|tokens| tokens >= context_window) {
        section.wrong("max_output_tokens", format!("must be less than context_window ({context_window})"));
    }
    let (shortest, longest) = (Duration::from_millis(1), Duration::from_secs(3600));
    let request_model = read_request_model(section, kind, name);
    let structured_output = section.get("structured_output", scalar::word(&StructuredOutput::ALL));
    let structured_output = structured_output.unwrap_or_else(|| usual_structured_output(&provider));
    Model {
        provider,
        count_tokens: read_count_tokens(section, kind, &request_model),
        prices: section.has("prices").then(|| read_prices(&section.section("prices"))),
        request_model,
        context_window,
        max_output_tokens: max_output_tokens.unwrap_or_else(|| 4096.min(context_window / 2)),
        timeout: section.get("timeout", scalar::duration(shortest, longest)).unwrap_or(Duration::from_secs(60)),
        tool_calling: section.get("tool_calling", scalar::word(&ToolCalling::ALL)).unwrap_or(ToolCalling::Native),
        structured_output,
        // What providers answer most often when there is too much to do.
        inject: inject::read(section, 429),
    }
}

/// Asking a provider costs a request, and a tokenizer memory: neither is meant by saying nothing,
/// but for a model whose tokenizer is known.
fn read_count_tokens(section: &Section<'_>, kind: Option<Kind>, request_model: &str) -> CountedBy {
    let given = section.get("count_tokens", scalar::word(&CountedBy::ALL.map(|by| (by.label(), by))));
    if given == Some(CountedBy::Provider) && kind == Some(Kind::OpenAi) {
        section.wrong("count_tokens", "must be tokenizer or estimate: the API of provider openai counts nothing");
    }
    let known = kind == Some(Kind::OpenAi) && Counting::knows(request_model);
    given.unwrap_or(if known { CountedBy::Tokenizer } else { CountedBy::Estimate })
}

/// What a million tokens cost; cached ones as much as others, if nothing else is said.
fn read_prices(section: &Section<'_>) -> Prices {
    let price = || scalar::money(Money::ZERO);
    let input = section.need("input", price()).unwrap_or_default();
    Prices {
        input,
        output: section.need("output", price()).unwrap_or_default(),
        cache_read: section.get("cache_read", price()).unwrap_or(input),
        cache_write: section.get("cache_write", price()).unwrap_or(input),
    }
}

fn read_request_model(section: &Section<'_>, kind: Option<Kind>, name: &str) -> String {
    let given = match kind {
        // No model of that API can be meant by saying nothing.
        Some(Kind::OpenAi) => section.need("model", scalar::text),
        _ => section.get("model", scalar::text),
    };
    given.unwrap_or_else(|| if kind == Some(Kind::Anthropic) { anthropic::MODEL.to_owned() } else { name.to_owned() })
}

fn read_provider(section: &Section<'_>, kind: Option<Kind>, vault: Vault<'_>) -> Provider {
    let script = read_script(section, kind, vault);
    let base_url = section.get("base_url", base_url);
    let api_key = section.get("api_key", |node| header_value(vault.pointed(node)?));
    let headers = section.map("headers", otel::header_name, |node| header_value(vault.any(node)?));
    let stream = section.get("stream", scalar::flag).unwrap_or(true);
    let max_tokens_key = section.get("max_tokens_key", scalar::word(&MaxTokensKey::ALL));

    let Some(kind) = kind else { return Provider::Scripted(Script::Bank) };
    for (key, kinds, words) in SPECIAL {
        if section.has(key) && !kinds.contains(&kind) {
            section.wrong(key, format!("is for provider {words} only"));
        }
    }
    if kind != Kind::Scripted && !section.has("base_url") && !section.has("api_key") {
        section.wrong(
            "api_key",
            "is missing; write { env: NAME } or { file: PATH }, or the base_url of a server of your own",
        );
    }
    let headers = headers.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
    let access = |usual: &str| Access {
        base_url: base_url.clone().unwrap_or_else(|| usual.to_owned()),
        api_key,
        headers,
        stream,
    };
    match kind {
        Kind::Scripted => Provider::Scripted(script),
        Kind::Anthropic => Provider::Anthropic(access(anthropic::BASE_URL)),
        Kind::OpenAi => {
            let access = access(openai::BASE_URL);
            let usual = usual_max_tokens_key(&access.base_url);
            Provider::OpenAi(access, max_tokens_key.unwrap_or(usual))
        }
    }
}

fn read_script(section: &Section<'_>, kind: Option<Kind>, vault: Vault<'_>) -> Script {
    let read = |node: &Node| {
        let text = scalar::text(node)?;
        Ok(if text == "bank" { Script::Bank } else { Script::File(vault.folder.join(text)) })
    };
    let script = if kind == Some(Kind::Scripted) { section.need("script", read) } else { section.get("script", read) };
    script.unwrap_or(Script::Bank)
}

/// OpenAI's own models refuse the old key, most other servers do not know the new one.
fn usual_max_tokens_key(base_url: &str) -> MaxTokensKey {
    if base_url.starts_with("https://api.openai.com") {
        MaxTokensKey::MaxCompletionTokens
    } else {
        MaxTokensKey::MaxTokens
    }
}

/// The providers' own services force the form of a reply; of the servers that speak their APIs,
/// many do not, and some cannot do it beside tools.
fn usual_structured_output(provider: &Provider) -> StructuredOutput {
    let own =
        provider.access().is_some_and(|access| [anthropic::BASE_URL, openai::BASE_URL].contains(&&*access.base_url));
    if own { StructuredOutput::Native } else { StructuredOutput::Prompt }
}

pub(super) fn base_url(node: &Node) -> Read<String> {
    let right = "must be an http or https address such as https://api.example.com/v1";
    let text = scalar::text(node)?;
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let host = rest.and_then(|rest| rest.split('/').next()).unwrap_or_default();
    // An address with a credential is not repeated.
    if host.contains('@') {
        return Err("must not hold a credential; write it under api_key".to_owned());
    }
    let fits = !host.is_empty() && !text.contains(['?', '#']) && text.chars().all(|c| c.is_ascii_graphic());
    if fits { Ok(text.trim_end_matches('/').to_owned()) } else { Err(format!("{right}, not {}", scalar::show(node))) }
}

/// What stands in a header must be one line of plain letters.
pub(super) fn header_value(secret: Sensitive<String>) -> Read<Sensitive<String>> {
    let fits = secret.expose().bytes().all(|byte| (0x20..0x7f).contains(&byte));
    if fits { Ok(secret) } else { Err("holds characters that no HTTP header may hold".to_owned()) }
}
