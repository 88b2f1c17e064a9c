//! A visitor as far as HTTP goes: keeps cookies, sends forms as a browser does, follows nothing.

use std::{cell::RefCell, collections::BTreeMap};

use crate::process::{Answer, Client};

/// One browser's worth of cookies.
pub(super) struct Visit {
    client: Client,
    pub(super) cookies: RefCell<BTreeMap<String, String>>,
}

impl Visit {
    pub(super) fn new(client: &Client) -> Self {
        Self { client: *client, cookies: RefCell::default() }
    }

    pub(super) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "")
    }

    /// Sends a form with the token of this visit.
    pub(super) fn post(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let token = self.token();
        let pairs: Vec<_> = fields
            .iter()
            .chain([&("token", token.as_str())])
            .map(|(name, value)| format!("{name}={}", escaped(value)))
            .collect();
        let origin = format!("http://{}", self.client.address());
        let headers = [("content-type", "application/x-www-form-urlencoded"), ("origin", origin.as_str())];
        self.send("POST", path, &headers, &pairs.join("&"))
    }

    /// The token that forms of this visit carry.
    pub(super) fn token(&self) -> String {
        let mut page = self.get("/console");
        if page.status == 303 {
            page = self.get(page.header("location").unwrap());
        }
        let begin = "name=\"token\" value=\"";
        let at = page.body.find(begin).unwrap_or_else(|| panic!("no token in {page:?}")) + begin.len();
        page.body[at..].split('"').next().unwrap().to_owned()
    }

    pub(super) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let kept: Vec<_> = self.cookies.borrow().iter().map(|(name, value)| format!("{name}={value}")).collect();
        let kept = kept.join("; ");
        let mut headers = headers.to_vec();
        headers.push(("cookie", &kept));
        let answer = self.client.request(method, path, &headers, body);
        for (_, set) in answer.headers.iter().filter(|(name, _)| name == "set-cookie") {
            let (name, value) = set.split(';').next().and_then(|pair| pair.split_once('=')).unwrap();
            if set.contains("Max-Age=0") {
                self.cookies.borrow_mut().remove(name);
            } else {
                self.cookies.borrow_mut().insert(name.to_owned(), value.to_owned());
            }
        }
        answer
    }
}

fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}
