//! From an error of the schema library to problems in words that a model can act on.

use jsonschema::{
    ValidationError,
    error::{TypeKind, ValidationErrorKind as Kind},
};
use serde_json::Value;

use super::{
    Problem,
    expect::{encoded_kind, expected, got, shorten},
};
use crate::tool::schema::{escape, resolve};

/// Names of allowed fields that are listed.
const LISTED: usize = 30;

/// The problems that one error stands for.
pub(super) fn explain(root: &Value, error: &ValidationError<'_>) -> Vec<Problem> {
    let path = error.instance_path().to_string();
    let value = error.instance();
    match error.kind() {
        Kind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            vec![missing(root, error, &path, name)]
        }
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            let allowed = allowed(root, schema_around(root, error));
            unexpected.iter().map(|name| extra(&path, name, &allowed)).collect()
        }
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => of_forms(root, error, context),
        Kind::OneOfMultipleValid { .. } => {
            vec![Problem::new(
                path,
                format!("fits several of the allowed forms, must fit exactly one, got {}", got(value)),
            )]
        }
        Kind::FalseSchema => vec![Problem::new(path, "no value is allowed here")],
        Kind::PropertyNames { error } => {
            vec![Problem::new(path, format!("a field has a name that is not allowed: {}", shorten(&error.to_string())))]
        }
        Kind::Type { kind } => vec![wrong_type(root, error, kind)],
        _ => vec![Problem::new(path, describe(root, error))],
    }
}

fn describe(root: &Value, error: &ValidationError<'_>) -> String {
    let value = error.instance();
    match schema_around(root, error).filter(|schema| says(schema, error)).and_then(expected) {
        Some(phrase) => format!("expected {phrase}, got {}", got(value)),
        None => shorten(&error.to_string()),
    }
}

/// Whether the phrase for a schema covers the word that failed.
fn says(schema: &Value, error: &ValidationError<'_>) -> bool {
    match error.kind() {
        Kind::Enum { .. } | Kind::Constant { .. } => true,
        Kind::Contains | Kind::Not { .. } | Kind::Referencing(_) | Kind::UnevaluatedItems { .. } => false,
        Kind::AdditionalItems { .. } | Kind::Custom { .. } => false,
        _ => schema.get("type").is_some() && schema.get("enum").is_none() && schema.get("const").is_none(),
    }
}

fn wrong_type(root: &Value, error: &ValidationError<'_>, kind: &TypeKind) -> Problem {
    let path = error.instance_path().to_string();
    let value = error.instance();
    let phrase = schema_around(root, error).and_then(expected).unwrap_or_else(|| type_names(kind));
    let detail = match encoded_kind(value) {
        Some(kind) if phrase.contains(kind) => {
            format!(
                "expected {phrase}, got a string that holds JSON ({kind}), send {} itself, not its text",
                kind.replacen("an", "the", 1)
            )
        }
        _ => format!("expected {phrase}, got {}", got(value)),
    };
    Problem::new(path, detail)
}

fn type_names(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(one) => one.to_string(),
        TypeKind::Multiple(set) => set.iter().map(|one| one.to_string()).collect::<Vec<_>>().join(" or "),
    }
}

fn missing(root: &Value, error: &ValidationError<'_>, path: &str, name: &str) -> Problem {
    let schema = schema_around(root, error).and_then(|schema| schema.get("properties")?.get(name));
    let phrase = schema.and_then(expected).map(|phrase| format!(", expected {phrase}")).unwrap_or_default();
    Problem::new(format!("{path}/{}", escape(name)), format!("missing{phrase}"))
}

fn extra(path: &str, name: &str, allowed: &[String]) -> Problem {
    let names = match allowed {
        [] => "no fields are allowed here".to_owned(),
        names if names.len() > LISTED => {
            format!("allowed: {} and {} more", names[..LISTED].join(", "), names.len() - LISTED)
        }
        names => format!("allowed: {}", names.join(", ")),
    };
    Problem::new(format!("{path}/{}", shorten(&escape(name))), format!("not an allowed field ({names})"))
}

/// Where one form was meant, its problems; where none stands out, what the forms are.
fn of_forms(root: &Value, error: &ValidationError<'_>, forms: &[Vec<ValidationError<'static>>]) -> Vec<Problem> {
    let here = error.instance_path().to_string();
    let other_type = |form: &&Vec<ValidationError<'static>>| {
        form.iter().any(|error| matches!(error.kind(), Kind::Type { .. }) && error.instance_path().as_str() == here)
    };
    let mut meant = forms.iter().filter(|form| !other_type(form) && !form.is_empty());
    if let (Some(form), None) = (meant.next(), meant.next()) {
        return form.iter().flat_map(|error| explain(root, error)).collect();
    }
    let value = error.instance();
    let phrase = schema_around(root, error).and_then(expected);
    let detail = match (phrase, encoded_kind(value)) {
        (Some(phrase), Some(kind)) if phrase.contains(kind) => {
            format!("expected {phrase}, got a string that holds JSON ({kind}), send it itself, not its text")
        }
        (Some(phrase), _) => format!("expected {phrase}, got {}", got(value)),
        (None, _) => format!("fits none of the {} allowed forms, got {}", forms.len(), got(value)),
    };
    vec![Problem::new(here, detail)]
}

/// The schema that holds the word which failed.
fn schema_around<'a>(root: &'a Value, error: &ValidationError<'_>) -> Option<&'a Value> {
    let path = error.schema_path().as_str();
    root.pointer(&path[..path.rfind('/')?])
}

/// The fields that an object may have, those declared by its parts too.
fn allowed(root: &Value, schema: Option<&Value>) -> Vec<String> {
    let mut names = Vec::new();
    if let Some(schema) = schema {
        collect_names(root, schema, 0, &mut names);
    }
    names
}

fn collect_names(root: &Value, schema: &Value, depth: usize, names: &mut Vec<String>) {
    const MAX_DEPTH: usize = 16;
    if depth > MAX_DEPTH {
        return;
    }
    if let Some(Value::Object(declared)) = schema.get("properties") {
        for name in declared.keys().filter(|name| !names.contains(name)).cloned().collect::<Vec<_>>() {
            names.push(name);
        }
    }
    let parts = ["allOf", "anyOf", "oneOf"].iter().filter_map(|word| schema.get(*word)?.as_array()).flatten();
    let branches = ["then", "else"].iter().filter_map(|word| schema.get(*word));
    let target = schema.get("$ref").and_then(Value::as_str).and_then(|reference| resolve(root, reference));
    for part in parts.chain(branches).chain(target) {
        collect_names(root, part, depth + 1, names);
    }
}
