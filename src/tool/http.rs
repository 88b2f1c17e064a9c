//! A tool that is a request to a service over HTTP, declared and not programmed.
//!
//! Scheme, host, port and the number of path segments are fixed when it is declared; arguments
//! fill holes and cannot leave them. Redirects are followed for GET alone and to the same origin
//! alone. It must never know retries: an attempt is one exchange.

mod address;
mod answer;
mod exchange;
mod request;

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use reqwest::header::HeaderName;
use serde_json::Value;

use super::template::{self, Shape, Template};
use crate::core::{
    Fault, Sensitive, Tool, ToolSpec,
    port::{ToolContext, ToolReply},
};

pub use self::address::Address;
pub use crate::web::{Client, Error};

/// Bytes of an answer at the most, unless configured otherwise.
pub const DEFAULT_ANSWER_BYTES: u64 = 1 << 20;

/// A request with holes, and what its answer means.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// GET, POST and so on.
    pub method: Method,
    /// Where it goes.
    pub address: Address,
    /// Parts of the query; one whose argument is missing is left out.
    pub query: BTreeMap<String, Template>,
    /// Headers; one whose argument is missing is left out.
    pub headers: BTreeMap<String, Header>,
    /// The credential of an `Authorization: Bearer` header.
    pub bearer: Option<Sensitive<String>>,
    /// What is sent.
    pub body: Option<Body>,
    /// JSON Pointer to the part of the answer that is the result; all of it, if there is none.
    pub result: Option<String>,
    /// Which answers say that the service failed, although their status is a success.
    pub failure: Option<Failure>,
    /// Bytes of an answer at the most.
    pub max_bytes: u64,
}

/// A method of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Asks.
    Get,
    /// Sends.
    Post,
    /// Puts in the place of what is there.
    Put,
    /// Changes a part.
    Patch,
    /// Removes.
    Delete,
}

/// The value of a header.
#[derive(Clone, Debug, PartialEq)]
pub enum Header {
    /// Text with holes.
    Text(Template),
    /// A secret, with none.
    Secret(Sensitive<String>),
}

/// What is sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// JSON.
    Json(Shape),
    /// The fields of a form.
    Form(BTreeMap<String, Template>),
}

/// The rule by which an answer says that the service failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// JSON Pointer into the answer.
    pub pointer: String,
    /// The value that means failure; without one, anything but null, false and a missing part.
    pub equals: Option<Value>,
    /// JSON Pointer to the text that says why.
    pub message: Option<String>,
}

/// The tool.
pub struct HttpTool {
    spec: ToolSpec,
    plan: Plan,
    client: Client,
}

impl Method {
    /// Every one, with its word.
    pub const ALL: [(&'static str, Self); 5] = [
        ("GET", Self::Get),
        ("POST", Self::Post),
        ("PUT", Self::Put),
        ("PATCH", Self::Patch),
        ("DELETE", Self::Delete),
    ];

    /// The word.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

impl Plan {
    /// A GET of this address, with nothing else.
    pub const fn get(address: Address) -> Self {
        Self {
            method: Method::Get,
            address,
            query: BTreeMap::new(),
            headers: BTreeMap::new(),
            bearer: None,
            body: None,
            result: None,
            failure: None,
            max_bytes: DEFAULT_ANSWER_BYTES,
        }
    }

    /// The arguments that it takes, those of the path first.
    pub fn names(&self) -> Vec<&str> {
        let headers = self.headers.values().filter_map(|header| match header {
            Header::Text(template) => Some(template),
            Header::Secret(_) => None,
        });
        let mut names: Vec<&str> = self.address.names().collect();
        names.extend(self.query.values().chain(headers).flat_map(Template::names));
        match &self.body {
            None => {}
            Some(Body::Json(shape)) => names.extend(shape.names()),
            Some(Body::Form(fields)) => names.extend(fields.values().flat_map(Template::names)),
        }
        names
    }

    /// What must not come back in the text of an error.
    fn secrets(&self) -> impl Iterator<Item = &str> {
        let headers = self.headers.values().filter_map(|header| match header {
            Header::Text(_) => None,
            Header::Secret(secret) => Some(secret),
        });
        self.bearer.iter().chain(headers).map(|secret| secret.expose().as_str())
    }
}

impl HttpTool {
    /// A tool that makes this request.
    ///
    /// # Errors
    /// Where https is asked for and no certificates can be read.
    pub fn new(spec: ToolSpec, plan: Plan, client: Client) -> Result<Self, Error> {
        client.check_scheme(plan.address.scheme())?;
        Ok(Self { spec, plan, client })
    }
}

impl std::fmt::Debug for HttpTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpTool").field("spec", &self.spec).field("plan", &self.plan).finish_non_exhaustive()
    }
}

#[async_trait]
impl Tool for HttpTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn kind(&self) -> &'static str {
        "http"
    }

    async fn call(&self, cx: &ToolContext, arguments: Value) -> Result<ToolReply, Fault> {
        let values = template::values(cx, arguments);
        let request = request::build(&self.plan, self.spec.effect, cx, &values)?;
        let response = exchange::send(&self.client, request).await?;
        answer::read(&self.plan, &self.client, response).await
    }
}

/// Whether a header may be set by configuration: not those that decide where a request goes and
/// where its body ends.
///
/// # Errors
/// One phrase on why not.
pub fn check_header_name(name: &str) -> Result<(), String> {
    const OURS: [&str; 7] =
        ["host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "traceparent"];
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| "is no name of an HTTP header".to_owned())?;
    if OURS.contains(&name.as_str()) { Err("is a header that glassbox sets itself".to_owned()) } else { Ok(()) }
}

/// The client that HTTP tools share; none is built where there are none.
#[derive(Default)]
pub struct Shared(Option<Client>);

impl Shared {
    /// The client, built on first use.
    ///
    /// # Errors
    /// Where no client can be built at all.
    pub fn client(&mut self, clock: &Arc<dyn crate::core::Clock>) -> Result<Client, Error> {
        if let Some(client) = &self.0 {
            return Ok(client.clone());
        }
        Ok(self.0.insert(Client::new(clock.clone())?).clone())
    }
}
