//! Server-sent events of a reply, as they come; a reply has a largest size.
//!
//! It must never know what an event means.

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use sse_stream::SseByteStream;

use super::http::MAX_REPLY;
use crate::{
    core::{Fault, FaultKind},
    web::describe,
};

/// Why the bytes of a stream ended.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("{}", describe(.0))]
    Lost(reqwest::Error),
    #[error("the reply is longer than {MAX_REPLY} bytes")]
    TooLong,
}

/// The data of each event that has any, one after the other.
pub(super) fn data_of(response: reqwest::Response) -> impl Stream<Item = Result<String, Fault>> + Send + Unpin {
    data_in(Box::pin(response.bytes_stream().map(|chunk| chunk.map_err(Broken::Lost))))
}

fn data_in(
    bytes: impl Stream<Item = Result<Bytes, Broken>> + Send + Unpin,
) -> impl Stream<Item = Result<String, Fault>> + Send + Unpin {
    let mut length = 0_usize;
    let capped = bytes.map(move |chunk| {
        let chunk = chunk?;
        length = length.saturating_add(chunk.len());
        if length > MAX_REPLY { Err(Broken::TooLong) } else { Ok(chunk) }
    });
    SseByteStream::new(capped).filter_map(|event| {
        std::future::ready(match event {
            Ok(event) => event.data.filter(|data| !data.trim().is_empty()).map(Ok),
            Err(error) => Some(Err(fault_of(error))),
        })
    })
}

fn fault_of(error: sse_stream::Error) -> Fault {
    match error {
        sse_stream::Error::Body(source) => match source.downcast_ref::<Broken>() {
            Some(Broken::TooLong) => Fault::new(FaultKind::Malformed, source.to_string()),
            _ => Fault::new(FaultKind::Transport, format!("the stream broke: {source}")),
        },
        _ => Fault::new(FaultKind::Malformed, "the stream is not UTF-8"),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    async fn read(pieces: &[&[u8]]) -> Vec<Result<String, FaultKind>> {
        let pieces: Vec<Result<Bytes, Broken>> = pieces.iter().map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        data_in(stream::iter(pieces)).map(|event| event.map_err(|fault| fault.kind)).collect().await
    }

    #[tokio::test]
    async fn comments_empty_data_line_ends_and_several_lines() {
        let text = "\u{feff}: hello\r\n\r\nevent: a\r\ndata: {\"x\":\r\ndata: 1}\r\n\r\nid: 7\n\ndata:\n\ndata:two\n\n";
        let expected = [Ok("{\"x\":\n1}".to_owned()), Ok("two".to_owned())];
        assert_eq!(read(&[text.as_bytes()]).await, expected);
        let single: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(read(&single).await, expected);
    }

    #[tokio::test]
    async fn letters_cut_in_the_middle_come_whole() {
        let text = "data: Такси 🚕\n\n".as_bytes();
        for cut in 1..text.len() {
            assert_eq!(read(&[&text[..cut], &text[cut..]]).await, [Ok("Такси 🚕".to_owned())], "cut at {cut}");
        }
    }

    #[tokio::test]
    async fn what_is_no_text_and_what_never_ends_are_malformed() {
        assert_eq!(read(&[b"data: \xff\xff\n\n"]).await, [Err(FaultKind::Malformed)]);
        let long = vec![b'x'; MAX_REPLY / 2 + 1];
        assert_eq!(read(&[b"data: ", &long, &long]).await, [Err(FaultKind::Malformed)]);
    }
}
