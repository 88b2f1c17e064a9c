//! The claims of a token that was found good, made a principal.
//!
//! It must never know how the token was checked.

use serde_json::{Map, Value};

use super::refusal::Refusal;
use crate::{
    config::{Claims, ROLES},
    core::Principal,
};

/// Bytes of an identifier or an attribute at the most.
const LONGEST: usize = 256;

/// Who calls.
pub(super) fn principal(names: &Claims, claims: &Map<String, Value>) -> Result<Principal, Refusal> {
    let id = find(claims, &names.id).and_then(text);
    let id =
        id.ok_or(Refusal::Invalid("the token does not say who calls: the claim for the id is missing or no text"))?;
    let mut roles = words(find(claims, &names.roles));
    roles.retain(|role| ROLES.contains(&role.as_str()));
    if roles.is_empty() {
        roles.push(ROLES[0].to_owned());
    }
    let attribute = |(name, claim): (&String, &String)| Some((name.clone(), find(claims, claim).and_then(text)?));
    Ok(Principal {
        id,
        scopes: words(find(claims, &names.scopes)),
        roles,
        attributes: names.attributes.iter().filter_map(attribute).collect(),
    })
}

/// A claim by its name, which may hold dots (`https://bank.example/roles`); else by a path.
fn find<'a>(claims: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    claims.get(name).or_else(|| {
        let mut path = name.split('.');
        let first = claims.get(path.next()?)?;
        path.try_fold(first, |value, name| value.get(name))
    })
}

fn text(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_u64() => number.to_string(),
        _ => return None,
    };
    (!text.trim().is_empty() && text.len() <= LONGEST).then_some(text)
}

fn words(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::String(text)) => text.split_ascii_whitespace().map(str::to_owned).collect(),
        Some(Value::Array(items)) => items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn read(names: &Claims, claims: Value) -> Result<Principal, Refusal> {
        principal(names, claims.as_object().expect("an object"))
    }

    #[test]
    fn scopes_and_roles_are_words_or_lists_and_foreign_roles_are_left_out() {
        let claims = json!({"sub": "C-7", "scope": "spending:read  card:block", "roles": ["admin", "approver"]});
        let read = read(&Claims::default(), claims).expect("a principal");
        assert_eq!((read.id.as_str(), read.scopes), ("C-7", vec!["spending:read".to_owned(), "card:block".to_owned()]));
        assert_eq!(read.roles, ["approver"]);
    }

    #[test]
    fn names_may_be_paths_or_hold_dots() {
        let names = Claims {
            id: "https://bank.example/id".into(),
            scopes: "permissions".into(),
            roles: "realm_access.roles".into(),
            attributes: BTreeMap::from([
                ("customer_id".into(), "bank.customer".into()),
                ("branch".into(), "none".into()),
            ]),
        };
        let claims = json!({
            "https://bank.example/id": 42, "permissions": ["a"], "realm_access": {"roles": "operator offline_access"},
            "bank": {"customer": "C-9"},
        });
        let read = read(&names, claims).expect("a principal");
        assert_eq!((read.id.as_str(), read.scopes, read.roles), ("42", vec!["a".into()], vec!["operator".into()]));
        assert_eq!(read.attributes, BTreeMap::from([("customer_id".into(), "C-9".into())]));
    }

    #[test]
    fn without_an_id_nobody_calls_and_without_a_role_a_user_does() {
        for claims in [json!({}), json!({"sub": ""}), json!({"sub": ["C-1"]}), json!({"sub": "x".repeat(257)})] {
            assert!(read(&Claims::default(), claims).is_err());
        }
        assert_eq!(read(&Claims::default(), json!({"sub": "C-1"})).expect("a principal").roles, ["user"]);
    }
}
