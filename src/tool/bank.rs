//! The tools of the bank assistant: what a customer spent, and the block of the card. Beside them
//! the bank's web service, for tools that are declared.
//!
//! The customer comes from the principal alone. No tool has a parameter for it, so a model
//! cannot ask for another customer's data.

mod database;
pub mod service;

use std::{path::PathBuf, sync::Arc};

use async_trait::async_trait;
use serde_json::{Value, json};

use self::database::Database;
use super::Overrides;
use crate::core::{
    Effect, Fault, FaultKind, Tool, ToolSpec,
    port::{ToolContext, ToolReply},
    spec::Confirm,
};

/// The bank's database, which both tools read and write.
#[derive(Clone, Debug)]
pub struct Bank {
    database: Arc<Database>,
}

/// `txn_sum`: a customer's spending for one category and month.
#[derive(Debug)]
pub struct TxnSum {
    spec: ToolSpec,
    bank: Bank,
}

/// `card_block`: blocks the customer's card.
#[derive(Debug)]
pub struct CardBlock {
    spec: ToolSpec,
    bank: Bank,
}

impl Bank {
    /// The bank in this file, which is made and filled on first use.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { database: Arc::new(Database::at(path.into())) }
    }

    /// Makes the file, if it is not there yet, for a tool that reads it in its own way. Blocks.
    ///
    /// # Errors
    /// Where it cannot be made.
    pub fn make(&self) -> Result<(), Fault> {
        self.database.make()
    }

    /// The tool `txn_sum`.
    pub fn txn_sum(&self, overrides: Overrides) -> TxnSum {
        TxnSum { spec: overrides.apply(txn_sum_spec()), bank: self.clone() }
    }

    /// The tool `card_block`.
    pub fn card_block(&self, overrides: Overrides) -> CardBlock {
        CardBlock { spec: overrides.apply(card_block_spec()), bank: self.clone() }
    }

    /// Runs blocking work on the database, off the async threads.
    async fn run<T: Send + 'static>(
        &self,
        span: tracing::Span,
        work: impl FnOnce(&Database) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let database = Arc::clone(&self.database);
        let joined = tokio::task::spawn_blocking(move || span.in_scope(|| work(&database))).await;
        joined.unwrap_or_else(|error| {
            let kind = if error.is_panic() { FaultKind::Panic } else { FaultKind::Internal };
            Err(Fault::new(kind, "the bank's database work broke off"))
        })
    }
}

#[async_trait]
impl Tool for TxnSum {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn kind(&self) -> &'static str {
        "builtin"
    }

    async fn probe(&self) -> Result<(), Fault> {
        self.bank.run(tracing::Span::none(), Database::make).await
    }

    async fn call(&self, cx: &ToolContext, arguments: Value) -> Result<ToolReply, Fault> {
        let customer = customer(cx)?;
        let (category, month) = (text(&arguments, "category")?, text(&arguments, "month")?);
        let span = tracing::info_span!(
            target: "glassbox::tool",
            "SELECT transactions",
            db.system.name = "sqlite",
            db.operation.name = "SELECT",
            db.collection.name = "transactions",
        );
        let (of_category, in_month) = (category.clone(), month.clone());
        let sum = self.bank.run(span, move |db| db.sum(&customer, &of_category, &in_month)).await?;
        Ok(ToolReply::Json(
            json!({"category": category, "month": month, "count": sum.count, "total_kzt": sum.total_kzt}),
        ))
    }
}

#[async_trait]
impl Tool for CardBlock {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn kind(&self) -> &'static str {
        "builtin"
    }

    async fn probe(&self) -> Result<(), Fault> {
        self.bank.run(tracing::Span::none(), Database::make).await
    }

    async fn call(&self, cx: &ToolContext, _arguments: Value) -> Result<ToolReply, Fault> {
        let (customer, key) = (customer(cx)?, cx.idempotency_key.clone());
        let span = tracing::info_span!(
            target: "glassbox::tool",
            "UPDATE cards",
            db.system.name = "sqlite",
            db.operation.name = "UPDATE",
            db.collection.name = "cards",
        );
        self.bank.run(span, move |db| db.block_card(&customer, &key)).await?;
        Ok(ToolReply::Json(json!({"status": "blocked"})))
    }
}

fn txn_sum_spec() -> ToolSpec {
    let schema = json!({
        "type": "object",
        "properties": {
            "category": {
                "type": "string",
                "description": "Category of spending, for example taxi, food, travel, utilities."
            },
            "month": {"type": "string", "pattern": r"^\d{4}-\d{2}$", "description": "Month as YYYY-MM."}
        },
        "required": ["category", "month"],
        "additionalProperties": false
    });
    ToolSpec::new("txn_sum", "Customer's spending for one category and month (YYYY-MM).", schema).effect(Effect::Read)
}

fn card_block_spec() -> ToolSpec {
    let schema = json!({"type": "object", "properties": {}, "additionalProperties": false});
    ToolSpec::new("card_block", "Block the customer's card. Changes state.", schema)
        .effect(Effect::Unsafe)
        .confirm(Confirm::AskCustomer)
}

fn customer(cx: &ToolContext) -> Result<String, Fault> {
    let claim = cx.principal.attribute("customer_id").map(str::to_owned);
    claim.ok_or_else(|| Fault::new(FaultKind::Refused, "the login names no customer"))
}

fn text(arguments: &Value, name: &str) -> Result<String, Fault> {
    let text = arguments.get(name).and_then(Value::as_str).map(str::to_owned);
    text.ok_or_else(|| Fault::new(FaultKind::Refused, format!("the argument {name} is no text")))
}

#[cfg(test)]
mod tests;
