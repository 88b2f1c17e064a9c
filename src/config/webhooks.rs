//! `handovers.webhook` and `confirmations.webhook`: who is told of what waits for a person.

use std::{collections::BTreeMap, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::{
    reader::Section,
    scalar::{self, Read},
    secret::Vault,
    tree::Node,
};
use crate::core::{Sensitive, notice::Hook};

/// How a secret of Standard Webhooks begins.
const PREFIX: &str = "whsec_";
const SECRET: &str =
    "must be whsec_ and the base64 of 24 to 64 bytes, as `echo whsec_$(openssl rand -base64 32)` gives";

/// Who is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// The address.
    pub url: String,
    /// The key of the signatures.
    pub secret: Sensitive<Vec<u8>>,
    /// The time of one attempt.
    pub timeout: Duration,
}

/// The webhooks of these sections, those that are there.
pub(super) fn read(root: &Section<'_>, vault: Vault<'_>) -> BTreeMap<Hook, Webhook> {
    let of = |hook: Hook| Some((hook, read_one(&root.section(hook.label()), vault)?));
    Hook::ALL.into_iter().filter_map(of).collect()
}

fn read_one(section: &Section<'_>, vault: Vault<'_>) -> Option<Webhook> {
    let wanted = section.has("webhook");
    let webhook = section.section("webhook");
    let url = webhook.get("url", address);
    let secret = webhook.get("secret", |node| key(&vault.pointed(node)?));
    let timeout = webhook.get("timeout", scalar::duration(Duration::from_millis(100), Duration::from_secs(60)));
    if !wanted {
        return None;
    }
    for key in ["url", "secret"].into_iter().filter(|key| !webhook.has(key)) {
        webhook.wrong(key, "is missing: a webhook has an address, and a secret that it is signed with");
    }
    Some(Webhook { url: url?, secret: secret?, timeout: timeout.unwrap_or(Duration::from_secs(10)) })
}

fn address(node: &Node) -> Read<String> {
    let right = "must be an http or https address such as https://desk.example/glassbox";
    let text = scalar::text(node)?;
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let host = rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default()).unwrap_or_default();
    if host.contains('@') {
        return Err("must not hold a credential; the signature says who calls".to_owned());
    }
    let fits = !host.is_empty() && text.chars().all(|c| c.is_ascii_graphic()) && reqwest::Url::parse(&text).is_ok();
    if fits { Ok(text) } else { Err(format!("{right}, not {}", scalar::show(node))) }
}

/// The bytes of a secret, which no phrase here repeats.
fn key(text: &Sensitive<String>) -> Read<Sensitive<Vec<u8>>> {
    let bytes = text.expose().trim().strip_prefix(PREFIX).and_then(|encoded| STANDARD.decode(encoded).ok());
    match bytes.filter(|bytes| (24..=64).contains(&bytes.len())) {
        Some(bytes) => Ok(Sensitive::new(bytes)),
        None => Err(SECRET.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tree;

    #[test]
    fn a_secret_is_that_of_standard_webhooks() {
        let secret = |text: &str| key(&text.into()).map(Sensitive::into_inner);
        assert_eq!(secret(&format!("whsec_{}", STANDARD.encode([7; 24]))), Ok(vec![7; 24]));
        for wrong in [
            STANDARD.encode([7; 32]),
            format!("whsec_{}", STANDARD.encode([7; 23])),
            format!("whsec_{}", STANDARD.encode([7; 65])),
            "whsec_hunter2!".to_owned(),
        ] {
            let told = secret(&wrong).expect_err("must be refused");
            assert!(told.starts_with("must be whsec_") && !told.contains("hunter2"), "{told}");
        }
    }

    #[test]
    fn an_address_is_a_whole_one_without_a_credential() {
        let read = |text: &str| address(&tree::parse(&format!("{text:?}"), None).expect("it is YAML").root);
        assert_eq!(read("http://127.0.0.1:9000/hook?tenant=1").as_deref(), Ok("http://127.0.0.1:9000/hook?tenant=1"));
        for wrong in
            ["desk.example", "ftp://desk.example", "https://", "https://me:hunter2@desk.example", "https://a b"]
        {
            let told = read(wrong).expect_err(wrong);
            assert!(!told.contains("me:hunter2"), "{told}");
        }
    }
}
