//! Arguments and results as text, the form that Postgres has for every type: an argument is read
//! by the type that the statement gives it, and a result keeps its type where JSON has it.

use bytes::BytesMut;
use serde_json::{Map, Value};
use tokio_postgres::{
    Client,
    types::{Format, IsNull, ToSql, Type},
};

use crate::tool::sql::{Rows, Statement, distinct};

type Failure = tokio_postgres::Error;

/// A statement as it was prepared on one connection.
pub(super) struct Shape {
    prepared: tokio_postgres::Statement,
    /// Name and kind of each column.
    columns: Vec<(String, Kind)>,
}

/// What a column's text is in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Flag,
    Number,
    Json,
    Text,
}

/// An argument as text.
#[derive(Debug)]
pub(super) struct Argument(Option<String>);

impl Shape {
    /// Prepares the statement, with each column of its result as text and one row more than is
    /// wanted. A statement with no result is prepared as it is.
    pub(super) async fn prepare(
        client: &Client,
        statement: &Statement,
        write: bool,
        max_rows: usize,
    ) -> Result<Self, Failure> {
        let plain = client.prepare(statement.postgres()).await?;
        if plain.columns().is_empty() {
            return Ok(Self { prepared: plain, columns: Vec::new() });
        }
        let names = distinct(plain.columns().iter().map(tokio_postgres::Column::name));
        let kinds = plain.columns().iter().map(|column| Kind::of(column.type_()));
        let columns: Vec<(String, Kind)> = names.into_iter().zip(kinds).collect();
        let numbered = |form: fn(usize) -> String| (0..columns.len()).map(form).collect::<Vec<_>>().join(", ");
        let (inner, outer) = (numbered(|n| format!("c{n}")), numbered(|n| format!("c{n}::text")));
        // What writes is run to its end, whether or not its rows are wanted.
        let limit = if write { String::new() } else { format!(" limit {}", max_rows.saturating_add(1)) };
        let text =
            format!("with glassbox ({inner}) as (\n{}\n) select {outer} from glassbox{limit}", statement.postgres());
        Ok(Self { prepared: client.prepare(&text).await?, columns })
    }

    pub(super) async fn run(
        &self,
        client: &Client,
        arguments: &[&(dyn ToSql + Sync)],
        max_rows: usize,
    ) -> Result<Rows, Failure> {
        if self.columns.is_empty() {
            let affected = client.execute(&self.prepared, arguments).await?;
            return Ok(Rows { affected: Some(affected), ..Rows::default() });
        }
        let mut result = Rows::default();
        for row in client.query(&self.prepared, arguments).await? {
            let mut fields = Map::new();
            for (index, (name, kind)) in self.columns.iter().enumerate() {
                let text: Option<&str> = row.try_get(index)?;
                fields.insert(name.clone(), text.map_or(Value::Null, |text| kind.value(text)));
            }
            if !result.take(fields, max_rows) {
                break;
            }
        }
        Ok(result)
    }
}

impl Kind {
    const fn of(kind: &Type) -> Self {
        match *kind {
            Type::BOOL => Self::Flag,
            Type::INT2 | Type::INT4 | Type::INT8 | Type::OID | Type::FLOAT4 | Type::FLOAT8 => Self::Number,
            Type::JSON | Type::JSONB => Self::Json,
            _ => Self::Text,
        }
    }

    /// The value; as text where JSON has no such number.
    fn value(self, text: &str) -> Value {
        match self {
            Self::Flag => Value::from(text == "true"),
            Self::Number | Self::Json => serde_json::from_str(text).unwrap_or_else(|_| Value::from(text)),
            Self::Text => Value::from(text),
        }
    }
}

impl Argument {
    /// A value as the text that Postgres reads; lists and objects as their JSON.
    pub(super) fn new(value: Option<&Value>) -> Self {
        Self(match value {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(value) => Some(value.to_string()),
        })
    }
}

impl ToSql for Argument {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match &self.0 {
            None => Ok(IsNull::Yes),
            Some(text) => {
                out.extend_from_slice(text.as_bytes());
                Ok(IsNull::No)
            }
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    tokio_postgres::types::to_sql_checked!();
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_of_a_column_becomes_what_json_has_for_it() {
        for (kind, text, value) in [
            (Type::BOOL, "true", json!(true)),
            (Type::BOOL, "false", json!(false)),
            (Type::INT8, "-42", json!(-42)),
            (Type::FLOAT8, "1.5", json!(1.5)),
            (Type::FLOAT8, "NaN", json!("NaN")),
            (Type::NUMERIC, "0.10", json!("0.10")),
            (Type::DATE, "2026-09-30", json!("2026-09-30")),
            (Type::JSONB, "{\"a\": [1]}", json!({"a": [1]})),
            (Type::TEXT, "true", json!("true")),
        ] {
            assert_eq!(Kind::of(&kind).value(text), value, "{kind} {text}");
        }
    }
}
