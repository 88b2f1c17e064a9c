//! One exchange with a service: a request, redirects inside one origin, the beginning of an answer.

use reqwest::{Method, Request, Response, Url, header::LOCATION};

use crate::{
    core::{Fault, FaultKind},
    web::{Client, unsent},
};

/// Redirects that are followed.
const MAX_REDIRECTS: usize = 5;
/// Who is asked, in the text of a fault.
const WHOM: &str = "the service";

/// Sends a request; what comes back is the beginning of an answer that is no redirect.
pub(super) async fn send(client: &Client, request: Request) -> Result<Response, Fault> {
    let mut again = (request.method() == Method::GET).then(|| request.try_clone()).flatten();
    let mut response = client.inner().execute(request).await.map_err(|error| unsent(&error, WHOM))?;
    for _ in 0..MAX_REDIRECTS {
        let Some(target) = redirect_of(&response) else { return Ok(response) };
        let Some(mut request) = again.as_ref().and_then(Request::try_clone) else { break };
        let target = inside(request.url(), &target)?;
        *request.url_mut() = target;
        again = request.try_clone();
        response = client.inner().execute(request).await.map_err(|error| unsent(&error, WHOM))?;
    }
    if redirect_of(&response).is_none() {
        return Ok(response);
    }
    let status = response.status().as_u16();
    let text = "the service answers with a redirect that is not followed";
    Err(Fault::new(FaultKind::Refused, format!("{text} ({status})")).status(status))
}

fn redirect_of(response: &Response) -> Option<String> {
    let redirects = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    let location = redirects.then(|| response.headers().get(LOCATION)).flatten()?;
    Some(String::from_utf8_lossy(location.as_bytes()).into_owned())
}

/// The target of a redirect, which must be of the same scheme, host and port: elsewhere may be a
/// place inside the network, and credentials would go along.
fn inside(from: &Url, target: &str) -> Result<Url, Fault> {
    let to = from.join(target).ok().filter(|to| to.origin() == from.origin());
    to.ok_or_else(|| Fault::new(FaultKind::Refused, "the service redirects to another host, which is not followed"))
}
