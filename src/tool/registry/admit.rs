//! The way of a call into its tool: name, structure, scopes, the tool's own check, confirmation.
//! The first step that says no answers with an observation for the model.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use serde_json::{Map, Value};

use super::{Registered, ToolSet};
use crate::core::{Arguments, Tool, ToolCall, ToolDefinition, ToolOutcome, ToolSpec, port::ToolContext, spec::Confirm};

/// What the model is told where the customer must be asked first.
pub const CONFIRM_FIRST: &str = "needs customer confirmation: ask the customer first";

/// Characters of an invented name that are shown.
const SHOWN: usize = 64;

/// A call that may run.
#[derive(Clone)]
pub struct Admitted {
    /// The tool.
    pub tool: Arc<dyn Tool>,
    /// Its arguments, valid and with defaults.
    pub arguments: Value,
    /// Arguments that come from the login, which the model neither sees nor fills.
    pub bound: Map<String, Value>,
    /// Whether a person must agree to these arguments.
    pub confirm: Confirm,
    /// What the model is shown of the tool.
    pub definition: Arc<ToolDefinition>,
}

/// A call that does not run, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// How the call ends.
    pub outcome: ToolOutcome,
    /// What the model reads.
    pub text: String,
    /// Whether the arguments fitted the schema; nothing where there was none to ask.
    pub arguments_valid: Option<bool>,
}

impl fmt::Debug for Admitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admitted").field("tool", self.spec()).finish_non_exhaustive()
    }
}

impl Admitted {
    /// What the tool declares of itself.
    pub fn spec(&self) -> &ToolSpec {
        self.tool.spec()
    }

    /// The arguments as the tool gets them: those of the model, and those of the login, which win.
    pub fn into_arguments(self) -> Value {
        with_bound(self.arguments, self.bound)
    }
}

impl Refusal {
    /// A refusal of a call whose arguments fit the schema.
    pub fn valid(outcome: ToolOutcome, text: impl Into<String>) -> Self {
        Self { outcome, text: text.into(), arguments_valid: Some(true) }
    }

    /// A refusal of arguments that do not fit.
    fn invalid(text: String) -> Self {
        Self { outcome: ToolOutcome::InvalidArguments, text, arguments_valid: Some(false) }
    }
}

impl ToolSet {
    /// Decides whether a call may run, in the order: name, structure, scopes, the tool's own
    /// check, the customer's word. Whether a person has agreed, where one must, is asked elsewhere.
    ///
    /// # Errors
    /// The first step that says no, as the end of the call.
    pub fn admit(&self, call: &ToolCall, cx: &ToolContext) -> Result<Admitted, Refusal> {
        self.admit_by(call, cx, |_| Ok(()))
    }

    /// Decides like [`ToolSet::admit`], with a rule of the caller's between the scopes and the
    /// tool's own check.
    ///
    /// # Errors
    /// The first step that says no, as the end of the call.
    pub fn admit_by(
        &self,
        call: &ToolCall,
        cx: &ToolContext,
        rule: impl FnOnce(&ToolSpec) -> Result<(), Refusal>,
    ) -> Result<Admitted, Refusal> {
        let Some(registered) = self.tools.iter().find(|tool| tool.name() == call.name) else {
            return Err(self.unknown(&call.name, cx));
        };
        check_unbound(registered.spec(), &call.arguments)?;
        let arguments =
            registered.schema.check(&call.arguments).map_err(|errors| Refusal::invalid(errors.to_string()))?;
        check_access(registered, cx)?;
        let bound = bound(registered.spec(), cx)?;
        rule(registered.spec())?;
        check_own(registered, cx, &with_bound(arguments.clone(), bound.clone()))?;
        let (tool, definition) = (Arc::clone(&registered.tool), Arc::clone(&registered.definition));
        match registered.spec().confirm_for(&arguments) {
            confirm @ (Confirm::Never | Confirm::Suspend) => {
                Ok(Admitted { tool, arguments, bound, confirm, definition })
            }
            Confirm::AskCustomer => Err(Refusal::valid(ToolOutcome::Denied, CONFIRM_FIRST)),
        }
    }

    fn unknown(&self, name: &str, cx: &ToolContext) -> Refusal {
        let mut names: Vec<_> = self.usable(&cx.principal).map(Registered::name).collect();
        names.sort_unstable();
        let available = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let shown: String = name.chars().take(SHOWN).collect();
        Refusal {
            outcome: ToolOutcome::UnknownTool,
            text: format!("unknown tool {shown:?}, available: {available}. Use only tools from the provided list."),
            arguments_valid: None,
        }
    }
}

/// What comes from the login cannot come from the model.
fn check_unbound(spec: &ToolSpec, arguments: &Arguments) -> Result<(), Refusal> {
    let Arguments::Json(Value::Object(given)) = arguments else { return Ok(()) };
    let sent: Vec<&str> = spec.bind.keys().map(String::as_str).filter(|name| given.contains_key(*name)).collect();
    match sent.as_slice() {
        [] => Ok(()),
        [one] => Err(Refusal::invalid(format!("{one} is set from the login; leave it out and retry."))),
        many => Err(Refusal::invalid(format!("{} are set from the login; leave them out and retry.", many.join(", ")))),
    }
}

fn bound(spec: &ToolSpec, cx: &ToolContext) -> Result<Map<String, Value>, Refusal> {
    spec.bound(&cx.principal).map_err(|missing| {
        let text =
            format!("Access denied: {} needs {} of the login, which it has not.", spec.name(), missing.join(", "));
        Refusal::valid(ToolOutcome::Denied, text)
    })
}

fn with_bound(mut arguments: Value, bound: Map<String, Value>) -> Value {
    if let Value::Object(fields) = &mut arguments {
        fields.extend(bound);
    }
    arguments
}

fn check_access(registered: &Registered, cx: &ToolContext) -> Result<(), Refusal> {
    match registered.lacking(&cx.principal) {
        None => Ok(()),
        Some(lacking) => {
            let text = format!("Access denied: {} needs {lacking}.", registered.name());
            Err(Refusal::valid(ToolOutcome::Denied, text))
        }
    }
}

fn check_own(registered: &Registered, cx: &ToolContext, arguments: &Value) -> Result<(), Refusal> {
    // A check takes shared references and its result is thrown away with the panic.
    match catch_unwind(AssertUnwindSafe(|| registered.tool.check(cx, arguments))) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(reason)) => Err(Refusal::valid(ToolOutcome::Denied, format!("Access denied: {reason}"))),
        Err(_) => {
            let text = format!("the check of {} failed, the call was not made", registered.name());
            Err(Refusal::valid(ToolOutcome::Failed, text))
        }
    }
}
