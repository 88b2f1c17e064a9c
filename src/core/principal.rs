//! Who a session acts for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The person or service behind a session, from login; the model neither sees nor fills it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Principal {
    /// The identifier from the login, for example a customer number.
    pub id: String,
    /// What it may do with tools; a tool's scopes must all be among these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// What it may do with the service: `user`, `approver`, `operator`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// Further claims of the login that tools may be bound to (`customer_id`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
}

impl Principal {
    /// What tools can be bound to: `id`, or an attribute by its name.
    pub fn claim(&self, name: &str) -> Option<&str> {
        if name == "id" { Some(&self.id) } else { self.attribute(name) }
    }

    /// A claim by name; `customer_id` falls back to the identifier itself.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        match self.attributes.get(name) {
            Some(value) => Some(value),
            None if name == "customer_id" => Some(&self.id),
            None => None,
        }
    }
}
