//! One exchange with a provider: the request goes out, and the reply is read, whole or as a
//! stream, by what the provider answers with.
//!
//! It must never know a provider's wire format; that is the reader's.

use futures_util::StreamExt as _;

use super::{
    draft::Draft,
    http::{Endpoint, Form},
    sse,
};
use crate::core::{
    Fault, ModelReply,
    port::{ModelCallInput, Progress},
};

/// Reads one provider's replies.
pub(super) trait Reader: Send {
    /// The reply so far.
    fn draft(&self) -> &Draft;

    /// Takes a reply that came as one body.
    ///
    /// # Errors
    /// Where it cannot be read, or is the provider's word of an error.
    fn whole(&mut self, body: &str) -> Result<(), Fault>;

    /// Takes the data of one event.
    ///
    /// # Errors
    /// Where it cannot be read, or is the provider's word of an error.
    fn event(&mut self, data: &str) -> Result<Flow, Fault>;

    /// The reply, once nothing more comes.
    ///
    /// # Errors
    /// Where the reply is not complete, or its end is a fault.
    fn finish(self) -> Result<ModelReply, Fault>;
}

/// Whether more is to be read of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// More may come.
    More,
    /// The provider said that this was all.
    Done,
}

/// Sends the request and reads the reply; the reader is made when there is one. A fault after the reply began carries what is charged.
pub(super) async fn exchange<R: Reader>(
    endpoint: &Endpoint,
    call: ModelCallInput<'_>,
    stream: bool,
    reader: impl FnOnce() -> R,
) -> Result<ModelReply, Fault> {
    let (form, response) = endpoint.send(call, stream).await?;
    let mut reader = reader();
    let read = match form {
        Form::Whole => match endpoint.body_of(response).await {
            Ok(body) => reader.whole(&body),
            Err(fault) => Err(fault),
        },
        Form::Stream => follow(response, &mut reader, call.progress).await,
    };
    // A stream that breaks after the last word of the reply has said everything.
    match read {
        Err(fault) if !reader.draft().complete => Err(charged(fault, reader.draft())),
        Err(_) | Ok(()) => {
            let charge = reader.draft().charge();
            reader.finish().map_err(|fault| Fault { usage: fault.usage.or(charge), ..fault })
        }
    }
}

/// Reads a stream and tells of what comes, so that it is charged also where nobody waits for the
/// end.
async fn follow<R: Reader>(response: reqwest::Response, reader: &mut R, progress: &dyn Progress) -> Result<(), Fault> {
    let mut events = sse::data_of(response);
    let mut told = 0;
    while let Some(data) = events.next().await {
        let flow = reader.event(&data?)?;
        let draft = reader.draft();
        if let Some(charge) = draft.charge() {
            progress.received(&draft.text[told..], charge);
            told = draft.text.len();
        }
        if flow == Flow::Done {
            break;
        }
    }
    Ok(())
}

fn charged(fault: Fault, draft: &Draft) -> Fault {
    match draft.charge() {
        Some(usage) => fault.charged(usage),
        None => fault,
    }
}
