//! A stream whose other side must take what is written to it.
//!
//! Who opens a connection and never reads would hold it for ever: the system asks it again and
//! again whether it has room, and it says no. It must never know what is written.

use std::{
    io::{Error, ErrorKind, IoSlice, Result},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// The stream, and how long it has been waiting for room.
pub(super) struct Stalling<S> {
    stream: S,
    longest: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> Stalling<S> {
    /// An error of kind `TimedOut` comes once there was no room for `longest`.
    pub(super) const fn new(stream: S, longest: Duration) -> Self {
        Self { stream, longest, waiting: None }
    }

    /// Hands on what the stream answered; where it still has no room, for so long only.
    fn bounded<T>(&mut self, context: &mut Context<'_>, answer: Poll<Result<T>>) -> Poll<Result<T>> {
        if answer.is_ready() {
            self.waiting = None;
            return answer;
        }
        let longest = self.longest;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(longest)));
        ready!(waiting.as_mut().poll(context));
        Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the other side takes nothing of the answer")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stalling<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stalling<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let answer = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.bounded(context, answer)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let answer = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.bounded(context, answer)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    const LONGEST: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_is_given_up() {
        let (ours, _theirs) = duplex(4);
        let begun = tokio::time::Instant::now();
        let error = Stalling::new(ours, LONGEST).write_all(b"four and more").await.unwrap_err();
        assert_eq!((error.kind(), begun.elapsed().as_secs()), (ErrorKind::TimedOut, 30));
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_a_little_now_and_then_gets_everything() {
        let (ours, mut theirs) = duplex(4);
        let text = b"thirty bytes, four at a time..";
        let reading = async {
            let mut read = Vec::new();
            while read.len() < text.len() {
                tokio::time::sleep(Duration::from_secs(29)).await;
                let mut piece = [0; 4];
                let count = theirs.read(&mut piece).await.unwrap();
                read.extend_from_slice(&piece[..count]);
            }
            read
        };
        let mut ours = Stalling::new(ours, LONGEST);
        let (written, read) = tokio::join!(ours.write_all(text), reading);
        assert!(written.is_ok(), "{written:?}");
        assert_eq!(read, text);
    }
}
