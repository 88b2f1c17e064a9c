//! What a server offers, as tools of ours: with safe names, closed schemas and the cautious rules
//! that configuration did not loosen.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use rmcp::model::{Tool as RemoteTool, ToolAnnotations};
use serde_json::Value;

use super::{McpTool, Server, Settings, naming};
use crate::{
    core::{Effect, ToolDefinition, ToolSpec},
    tool::{Overrides, Registration, Schema},
};

/// Tools of one server at the most; a server that offers more is cut off there.
const MOST_TOOLS: usize = 500;
/// Bytes of a description at the most.
const DESCRIPTION_BYTES: usize = 8192;

/// A tool as its server describes it, under the server's own name.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Offer {
    /// The server's name, text and schema.
    pub(super) definition: ToolDefinition,
    /// What the server says that a call changes, if it says so.
    pub(super) effect: Option<Effect>,
}

/// The tools of a list that configuration takes, each name once.
pub(super) fn offers(settings: &Settings, tools: Vec<RemoteTool>) -> Vec<Offer> {
    let mut seen = BTreeSet::new();
    let taken =
        |tool: &RemoteTool| settings.tools.as_ref().is_none_or(|allowed| allowed.iter().any(|name| *name == tool.name));
    let mut offers: Vec<_> = tools.into_iter().filter(taken).filter(|tool| seen.insert(tool.name.clone())).collect();
    offers.truncate(MOST_TOOLS);
    offers.into_iter().map(offer).collect()
}

fn offer(tool: RemoteTool) -> Offer {
    let description = tool.description.or(tool.title.map(Into::into)).unwrap_or_default();
    let end = description.floor_char_boundary(DESCRIPTION_BYTES);
    let definition = ToolDefinition {
        name: tool.name.into_owned(),
        description: description[..end].to_owned(),
        input_schema: Value::Object((*tool.input_schema).clone()),
    };
    Offer { definition, effect: tool.annotations.as_ref().and_then(effect) }
}

/// What the hints say. Hints that contradict each other say nothing good.
fn effect(hints: &ToolAnnotations) -> Option<Effect> {
    let (reads, destroys) = (hints.read_only_hint == Some(true), hints.destructive_hint == Some(true));
    match (reads, destroys, hints.idempotent_hint) {
        (true, true, _) => Some(Effect::Unsafe),
        (true, false, _) => Some(Effect::Read),
        (false, _, Some(true)) => Some(Effect::Idempotent),
        (false, _, Some(false)) => Some(Effect::Unsafe),
        (false, _, None) => hints.read_only_hint.map(|_| Effect::Unsafe),
    }
}

/// The tools that offers become; those whose schema cannot be used are left out, and said aloud.
pub(super) fn registrations(server: &Arc<Server>, offers: &[Offer]) -> Vec<Registration> {
    let settings = server.settings();
    let names = names(settings, offers);
    offers.iter().filter_map(|offer| registration(server, settings, &names, offer)).collect()
}

/// What models call each of these tools by.
pub(super) fn names(settings: &Settings, offers: &[Offer]) -> BTreeMap<String, String> {
    naming::names(&settings.prefix, &offers.iter().map(|offer| offer.definition.name.clone()).collect())
}

fn registration(
    server: &Arc<Server>,
    settings: &Settings,
    names: &BTreeMap<String, String>,
    offer: &Offer,
) -> Option<Registration> {
    let remote = offer.definition.name.clone();
    if let Err(errors) = Schema::compile(&offer.definition.input_schema, settings.strict) {
        let wrong = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        server.leave_out(&remote, wrong);
        return None;
    }
    let spec = spec(server.name(), settings, names.get(&remote)?, offer);
    let tool = McpTool { spec, remote, server: Arc::clone(server) };
    Some(Registration { tool: Arc::new(tool), strict: settings.strict })
}

fn spec(server: &str, settings: &Settings, name: &str, offer: &Offer) -> ToolSpec {
    let ToolDefinition { description, input_schema, .. } = offer.definition.clone();
    let spec = ToolSpec::new(name, description, input_schema).upstream(format!("mcp:{server}"));
    let mut spec = settings.all.clone().apply(spec);
    // What is bound for all tools goes to those that take it.
    spec.bind.retain(|argument, _| offer.definition.input_schema["properties"].get(argument).is_some());
    if let Some(hinted) = offer.effect.filter(|_| settings.trusted) {
        spec.effect = hinted;
    }
    let own = settings.each.get(&offer.definition.name).cloned().unwrap_or_default();
    Overrides { name: None, ..own }.apply(spec)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::tool::{
        Strict,
        mcp::{OnDrift, Reach},
    };

    fn hinted(hints: Value) -> Option<Effect> {
        effect(&serde_json::from_value(hints).expect("annotations of the protocol"))
    }

    #[test]
    fn hints_are_read_with_caution() {
        assert_eq!(hinted(json!({"readOnlyHint": true})), Some(Effect::Read));
        assert_eq!(hinted(json!({"readOnlyHint": true, "destructiveHint": true})), Some(Effect::Unsafe));
        assert_eq!(hinted(json!({"readOnlyHint": false, "idempotentHint": true})), Some(Effect::Idempotent));
        assert_eq!(hinted(json!({"idempotentHint": true, "destructiveHint": true})), Some(Effect::Idempotent));
        assert_eq!(hinted(json!({"readOnlyHint": false})), Some(Effect::Unsafe));
        assert_eq!(hinted(json!({"idempotentHint": false})), Some(Effect::Unsafe));
        assert_eq!(hinted(json!({"title": "x"})), None);
    }

    #[test]
    fn what_is_bound_for_all_tools_goes_to_those_that_take_it() {
        let bound = |argument: &str| [(argument.to_owned(), "customer_id".to_owned())].into();
        let mut settings = Settings {
            reach: Reach::Http { url: String::new(), headers: BTreeMap::new() },
            prefix: String::new(),
            tools: None,
            strict: Strict::Close,
            trusted: false,
            start_timeout: Duration::ZERO,
            all: Overrides::default(),
            each: BTreeMap::new(),
            pins: BTreeMap::new(),
            on_drift: OnDrift::default(),
        };
        settings.all.bind = bound("customer");
        settings.each = [("close".to_owned(), Overrides { bind: bound("account"), ..Overrides::default() })].into();
        let spec = |name: &str, properties: Value| {
            let schema = json!({"type": "object", "properties": properties});
            let definition = ToolDefinition { name: name.to_owned(), description: String::new(), input_schema: schema };
            let bind = spec("s", &settings, name, &Offer { definition, effect: None }).bind;
            bind.into_keys().collect::<Vec<_>>()
        };
        assert_eq!(spec("list", json!({"customer": {"type": "string"}})), ["customer"]);
        assert_eq!(spec("time", json!({})), Vec::<String>::new());
        assert_eq!(spec("close", json!({"customer": {}})), ["account", "customer"]);
    }
}
