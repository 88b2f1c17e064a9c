//! A server that is asked instead of the data folder: one client of the HTTP API.
//!
//! It must never know what a command shows, nor print the key.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, anyhow, bail, ensure};
use reqwest::{Method, Response, Url};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    core::{Entry, Fact, Sensitive, SessionId, StreamId, Timestamp},
    web::{
        self,
        loopback::{is_in_the_clear, is_near},
    },
};

/// The variable with the key.
pub(super) const KEY: &str = "GLASSBOX_API_KEY";
/// The longest time that an answer may take.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of an answer at the most.
const MAX_ANSWER: usize = 64 << 20;

/// A server and what it is asked with.
pub(super) struct Remote {
    client: reqwest::Client,
    base: Url,
    key: Option<Sensitive<String>>,
}

#[derive(Deserialize)]
struct Journal {
    facts: Vec<JournalEntry>,
}

#[derive(Deserialize)]
struct JournalEntry {
    seq: u64,
    at: String,
    fact: Value,
}

impl Remote {
    /// The server at this address, asked with the key of the environment, where there is one.
    ///
    /// # Errors
    /// An address that is none, and a key that would go over the network in the clear.
    pub(super) fn of(server: &str, env: &BTreeMap<String, String>) -> anyhow::Result<Self> {
        let right = "write it like https://agents.example.com or http://127.0.0.1:8080";
        let mut base = Url::parse(server).map_err(|_| anyhow!("--server: {server:?} is no address; {right}"))?;
        ensure!(matches!(base.scheme(), "http" | "https"), "--server: {server:?} is no web address; {right}");
        ensure!(
            base.username().is_empty() && base.password().is_none(),
            "--server: an address holds no name and no password; the key comes from {KEY}"
        );
        if !base.path().ends_with('/') {
            base.set_path(&format!("{}/", base.path()));
        }
        let host = base.host_str().unwrap_or_default();
        let key = env.get(KEY).filter(|key| !key.is_empty()).cloned().map(Sensitive::new);
        ensure!(
            key.is_none() || !is_in_the_clear(base.scheme(), host),
            "--server: {server} would get the key of {KEY} in the clear; use https"
        );
        // Without certificates of the system it still speaks to the loopback.
        // A proxy would be a network on the way to this machine, and see the key.
        let near = is_near(base.scheme(), host);
        let builder = || if near { web::builder().no_proxy() } else { web::builder() };
        let (client, _) = web::build_or_plain(|| builder().timeout(TIMEOUT))?;
        Ok(Self { client, base, key })
    }

    /// What stands at a path.
    ///
    /// # Errors
    /// Why the server did not give it, in its own words where it has any.
    pub(super) async fn get(&self, path: &str, query: &[(&str, String)]) -> anyhow::Result<Value> {
        let mut url = self.at(path)?;
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        self.ask(Method::GET, url, None).await
    }

    /// What comes of an order.
    ///
    /// # Errors
    /// Why it was not carried out.
    pub(super) async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.ask(Method::POST, self.at(path)?, Some(body)).await
    }

    /// The journal of a session.
    ///
    /// # Errors
    /// Why the server did not give it, and facts that only another version knows.
    pub(super) async fn journal(&self, id: SessionId) -> anyhow::Result<Vec<Entry>> {
        let journal = self.get(&format!("v1/sessions/{id}/journal"), &[]).await?;
        let journal: Journal = serde_json::from_value(journal).context("the server's journal is of another form")?;
        journal.facts.into_iter().map(|entry| read(id, entry)).collect()
    }

    fn at(&self, path: &str) -> anyhow::Result<Url> {
        self.base.join(path).with_context(|| format!("{path} is no path"))
    }

    async fn ask(&self, method: Method, url: Url, body: Option<&Value>) -> anyhow::Result<Value> {
        let mut request = self.client.request(method, url).header("accept", "application/json");
        if let Some(key) = &self.key {
            request = request.bearer_auth(key.expose());
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        let base = &self.base;
        let response = request.send().await.map_err(reqwest::Error::without_url);
        let response = response.with_context(|| format!("{base} does not answer"))?;
        let status = response.status();
        let answer = read_whole(response).await.with_context(|| format!("the answer of {base} broke off"))?;
        let answer: Value = serde_json::from_slice(&answer)
            .map_err(|_| anyhow!("{base} answers {status} and no JSON; is it glassbox?"))?;
        if status.is_success() {
            return Ok(answer);
        }
        let detail = answer["detail"].as_str().or_else(|| answer["title"].as_str()).unwrap_or_default();
        let hint = if status.as_u16() == 401 { format!(" (the key comes from {KEY})") } else { String::new() };
        bail!("{base} answers {}: {detail}{hint}", status.as_u16())
    }
}

async fn read_whole(mut response: Response) -> anyhow::Result<Vec<u8>> {
    let mut whole = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(reqwest::Error::without_url)? {
        ensure!(whole.len() + piece.len() <= MAX_ANSWER, "it is longer than {MAX_ANSWER} bytes");
        whole.extend_from_slice(&piece);
    }
    Ok(whole)
}

fn read(id: SessionId, entry: JournalEntry) -> anyhow::Result<Entry> {
    let JournalEntry { seq, at, fact } = entry;
    let fact: Fact = serde_json::from_value(fact)
        .with_context(|| format!("fact {seq} of {id} is not known here; is the server of another version?"))?;
    let at = Timestamp::from_rfc3339(&at).with_context(|| format!("the time of fact {seq} of {id} is none: {at}"))?;
    Ok(Entry { stream: StreamId::Session(id), seq, at, fact })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_key(server: &str) -> Result<String, String> {
        let env = BTreeMap::from([(KEY.to_owned(), "gbx_secret".to_owned())]);
        Remote::of(server, &env).map(|remote| remote.base.to_string()).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn a_key_goes_over_https_or_stays_on_the_machine() {
        assert_eq!(with_key("https://agents.example.com/box"), Ok("https://agents.example.com/box/".to_owned()));
        for near in ["http://127.0.0.1:8080", "http://localhost:8080", "http://[::1]:8080"] {
            assert!(with_key(near).is_ok(), "{near}");
        }
        let error = with_key("http://agents.example.com").expect_err("it is in the clear");
        assert!(error.contains("in the clear; use https") && !error.contains("gbx_"), "{error}");
        assert!(
            Remote::of("http://agents.example.com", &BTreeMap::new()).is_ok(),
            "without a key there is none to lose"
        );
    }

    #[test]
    fn an_address_with_a_password_is_refused_and_not_repeated() {
        let error = with_key("https://ops:hunter2@agents.example.com").expect_err("it holds a password");
        assert!(error.contains("the key comes from GLASSBOX_API_KEY") && !error.contains("hunter2"), "{error}");
    }

    #[test]
    fn what_is_no_web_address_is_told_what_would_be_one() {
        for wrong in ["agents", "ftp://agents.example.com", "127.0.0.1:8080"] {
            let error = with_key(wrong).expect_err(wrong);
            assert!(error.contains("write it like https://agents.example.com"), "{error}");
        }
    }
}
