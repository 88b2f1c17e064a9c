//! The registry of tools: which there are, which an agent has, and whether a call is admitted.
//!
//! It must never run a tool: it answers with the tool and its checked arguments, or with what
//! the model is told instead.

mod admit;

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde_json::Value;

use crate::core::{Principal, Tool, ToolSpec, spec::ToolDefinition};

use super::schema::{Schema, SchemaError, Strict};

pub use self::admit::{Admitted, CONFIRM_FIRST, Refusal};

/// A tool on its way into the registry.
#[derive(Clone)]
pub struct Registration {
    /// The tool.
    pub tool: Arc<dyn Tool>,
    /// What is done if its schema is open.
    pub strict: Strict,
}

/// Why tools cannot be registered or handed to an agent: all reasons at once.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct Error {
    /// The reasons, in the order of the tools.
    pub problems: Vec<RegistryProblem>,
}

/// One reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistryProblem {
    /// A name that models cannot call.
    #[error("tool name {0:?} must be 1 to 64 letters, digits, _ or -")]
    BadName(String),
    /// Two tools of one name.
    #[error("tool {0:?} is registered twice, names must differ")]
    Duplicate(String),
    /// A schema that is wrong.
    #[error("tool {name:?}: {error}")]
    Schema {
        /// The tool.
        name: String,
        /// What is wrong with its schema.
        error: SchemaError,
    },
    /// A name that an agent asks for and nobody registered.
    #[error("no tool {name:?}, there are: {}", .known.join(", "))]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names that there are.
        known: Vec<String>,
    },
}

/// All tools of a process.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    tools: BTreeMap<String, Arc<Registered>>,
}

/// The tools of one agent, in the order in which it names them.
#[derive(Clone, Debug, Default)]
pub struct ToolSet {
    tools: Vec<Arc<Registered>>,
    /// What models are shown of them, for whoever may use all.
    definitions: Arc<[ToolDefinition]>,
}

/// A tool with its compiled schema.
pub(super) struct Registered {
    tool: Arc<dyn Tool>,
    definition: Arc<ToolDefinition>,
    schema: Schema,
}

impl Registration {
    /// A tool whose schema must be closed.
    pub fn new(tool: Arc<dyn Tool>) -> Self {
        Self { tool, strict: Strict::Refuse }
    }

    /// A tool whose schema is closed for it.
    pub fn closing(tool: Arc<dyn Tool>) -> Self {
        Self { tool, strict: Strict::Close }
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration").field("tool", self.tool.spec()).field("strict", &self.strict).finish()
    }
}

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registered").field("definition", &self.definition).finish_non_exhaustive()
    }
}

impl Registered {
    fn name(&self) -> &str {
        &self.definition.name
    }

    fn spec(&self) -> &ToolSpec {
        self.tool.spec()
    }

    /// What the principal lacks, in a phrase; nothing if it may use the tool.
    fn lacking(&self, principal: &Principal) -> Option<String> {
        let ToolSpec { scopes, roles, .. } = self.spec();
        let missing: Vec<_> = scopes.iter().filter(|scope| !principal.scopes.contains(scope)).cloned().collect();
        if !missing.is_empty() {
            return Some(format!("the scope {}", missing.join(", ")));
        }
        let holds_one = roles.is_empty() || roles.iter().any(|role| principal.roles.contains(role));
        (!holds_one).then(|| format!("the role {}", roles.join(" or ")))
    }
}

impl Registry {
    /// Compiles the schemas of all tools.
    ///
    /// # Errors
    /// Bad and duplicate names and wrong schemas, all at once.
    pub fn new(registrations: Vec<Registration>) -> Result<Self, Error> {
        let (mut tools, mut problems) = (BTreeMap::new(), Vec::new());
        for Registration { tool, strict } in registrations {
            let mut definition = tool.spec().definition.clone();
            let name = definition.name.clone();
            if !is_name(&name) {
                problems.push(RegistryProblem::BadName(name.clone()));
            }
            hide_bound(&mut definition.input_schema, &tool.spec().bind);
            match Schema::compile(&definition.input_schema, strict) {
                Err(errors) => {
                    problems
                        .extend(errors.into_iter().map(|error| RegistryProblem::Schema { name: name.clone(), error }));
                    continue;
                }
                Ok(schema) => {
                    // The model is shown what is enforced.
                    definition.input_schema = schema.source().clone();
                    let registered = Registered { tool, definition: Arc::new(definition), schema };
                    if tools.insert(name.clone(), Arc::new(registered)).is_some() {
                        problems.push(RegistryProblem::Duplicate(name));
                    }
                }
            }
        }
        if problems.is_empty() { Ok(Self { tools }) } else { Err(Error { problems }) }
    }

    /// The names of all tools, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(String::as_str)
    }

    /// The spec of a tool as its code and configuration declare it.
    pub fn spec(&self, name: &str) -> Option<&ToolSpec> {
        self.tools.get(name).map(|registered| registered.spec())
    }

    /// A tool.
    pub fn tool(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.get(name).map(|registered| &registered.tool)
    }

    /// The compiled schema of a tool.
    pub fn schema(&self, name: &str) -> Option<&Schema> {
        self.tools.get(name).map(|registered| &registered.schema)
    }

    /// The tools of an agent; a name given twice counts once.
    ///
    /// # Errors
    /// All names that nobody registered.
    pub fn subset<S: AsRef<str>>(&self, names: impl IntoIterator<Item = S>) -> Result<ToolSet, Error> {
        let (mut tools, mut problems) = (Vec::<Arc<Registered>>::new(), Vec::new());
        for name in names {
            let name = name.as_ref();
            match self.tools.get(name) {
                Some(_) if tools.iter().any(|known| known.name() == name) => {}
                Some(tool) => tools.push(Arc::clone(tool)),
                None => problems.push(RegistryProblem::Unknown {
                    name: name.to_owned(),
                    known: self.names().map(str::to_owned).collect(),
                }),
            }
        }
        if problems.is_empty() { Ok(ToolSet::new(tools)) } else { Err(Error { problems }) }
    }

    /// All tools as one set, sorted by name.
    pub fn all(&self) -> ToolSet {
        ToolSet::new(self.tools.values().cloned().collect())
    }
}

impl ToolSet {
    fn new(tools: Vec<Arc<Registered>>) -> Self {
        let definitions = tools.iter().map(|tool| (*tool.definition).clone()).collect();
        Self { tools, definitions }
    }

    /// What the model is shown: the tools that the principal may use.
    pub fn definitions(&self, principal: &Principal) -> Arc<[ToolDefinition]> {
        if self.usable(principal).count() == self.tools.len() {
            return self.all_definitions();
        }
        self.usable(principal).map(|tool| (*tool.definition).clone()).collect()
    }

    /// What a model is shown at the most: every tool, whoever may use it.
    pub fn all_definitions(&self) -> Arc<[ToolDefinition]> {
        self.definitions.clone()
    }

    /// What the tools that the principal may use declare of themselves.
    pub fn specs(&self, principal: &Principal) -> impl Iterator<Item = &ToolSpec> {
        self.usable(principal).map(Registered::spec)
    }

    /// The names of the tools, whoever may use them.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|tool| tool.name())
    }

    /// The spec of a tool as its code and configuration declare it.
    pub fn spec(&self, name: &str) -> Option<&ToolSpec> {
        self.tools.iter().find(|tool| tool.name() == name).map(|tool| tool.spec())
    }

    /// Whether the agent has no tools at all.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    fn usable(&self, principal: &Principal) -> impl Iterator<Item = &Registered> {
        self.tools.iter().map(Arc::as_ref).filter(|tool| tool.lacking(principal).is_none())
    }
}

/// Takes the arguments that come from the login out of a schema: the model neither sees nor
/// fills them.
fn hide_bound(schema: &mut Value, bind: &BTreeMap<String, String>) {
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.retain(|name, _| !bind.contains_key(name));
    }
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| !name.as_str().is_some_and(|name| bind.contains_key(name)));
    }
}

fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

#[cfg(test)]
mod tests;
