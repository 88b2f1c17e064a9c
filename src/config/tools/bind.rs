//! `bind`: arguments that come from the login, `customer_id: "{{ principal.customer_id }}"`.

use std::collections::BTreeMap;

use crate::config::{
    reader::Section,
    scalar::{self, Read},
    tree::Node,
};

/// Argument and claim.
pub(super) fn read(section: &Section<'_>) -> BTreeMap<String, String> {
    section.map("bind", argument_name, claim)
}

/// Names of arguments, as far as tools that people declare can use them.
fn argument_name(name: &str) -> Read<()> {
    let fits = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if fits && !name.is_empty() { Ok(()) } else { Err("must be letters, digits, _ and -".to_owned()) }
}

fn claim(node: &Node) -> Read<String> {
    let right = "must be \"{{ principal.id }}\" or another claim of the login";
    let (text, _) = scalar::scalar(node, right)?;
    let inside = text.trim().strip_prefix("{{").and_then(|text| text.strip_suffix("}}"));
    let claim = inside.and_then(|inside| inside.trim().strip_prefix("principal."));
    match claim.filter(|claim| !claim.is_empty() && claim.chars().all(|c| !c.is_whitespace() && !"{}".contains(c))) {
        Some(claim) => Ok(claim.to_owned()),
        None => Err(format!("{right}, not {}", scalar::show(node))),
    }
}
